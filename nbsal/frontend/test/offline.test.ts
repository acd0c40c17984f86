import assert from "node:assert/strict";
import { test } from "node:test";
import { offlineModel, restoreBytes } from "../src/page/offline";

test("listeners of a trait are called when it changes, and only then", () => {
  const model = offlineModel({ level: "token" });
  const values: unknown[] = [];
  model.on("change:level", () => values.push(model.get("level")));
  model.set("level", "token");
  model.set("level", "word");
  assert.deepEqual(values, ["word"]);
});

test("bytes that were written into a page are restored", () => {
  const state = restoreBytes({ inner: { $bytes: "AQI=" }, list: [1, null, "x"] });
  const { inner, list } = state as { inner: DataView; list: unknown[] };
  assert.deepEqual([inner.getUint8(0), inner.getUint8(1), inner.byteLength], [1, 2, 2]);
  assert.deepEqual(list, [1, null, "x"]);
});
