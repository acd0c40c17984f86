import assert from "node:assert/strict";
import { test } from "node:test";
import { revived, standIn } from "../src/offline.js";
import { requests } from "../src/request.js";

/** A model whose Python answers as told. */
function answering(reply) {
  const model = standIn({});
  const calls = [];
  const on = model.on;
  let heard;
  model.on = (event, call) => {
    if (event === "msg:custom") heard = call;
    on(event, call);
  };
  model.send = (content) => {
    calls.push(content);
    queueMicrotask(() => heard({ id: "someone else's", reply: "wrong" }));
    queueMicrotask(() => heard({ id: content.id, ...reply }));
  };
  return { model, calls };
}

test("a request is answered by the reply that bears its id", async () => {
  const { model, calls } = answering({ reply: 42 });
  const ask = requests(model, new AbortController().signal);
  assert.deepEqual(await Promise.all([ask("save", { kind: "csv" }), ask("save")]), [42, 42]);
  assert.equal(calls[0].ask, "save");
  assert.equal(calls[0].kind, "csv");
  assert.notEqual(calls[0].id, calls[1].id);
});

test("an error in Python is an error here", async () => {
  const { model } = answering({ error: "no luck" });
  await assert.rejects(requests(model, new AbortController().signal)("save"), /no luck/);
});

test("closing ends what waits and lets the model go", async () => {
  const model = standIn({});
  model.send = () => {};
  const closing = new AbortController();
  const waiting = requests(model, closing.signal)("save");
  assert.equal(model.listeners(), 1);
  closing.abort();
  await assert.rejects(waiting, /closed/);
  assert.equal(model.listeners(), 0);
});

test("a saved page says that there is no Python", async () => {
  const ask = requests(standIn({}), new AbortController().signal);
  await assert.rejects(ask("save"), /no Python/);
});

test("traits of a stand-in are heard when they change, and only then", () => {
  const model = standIn({ level: "token" });
  const seen = [];
  model.on("change:level", () => seen.push(model.get("level")));
  model.set("level", "token");
  model.set("level", "word");
  assert.deepEqual(seen, ["word"]);
});

test("bytes written into a page are bytes again", () => {
  const { inner, list } = revived({ inner: { $bytes: "AQI=" }, list: [1, null, "x"] });
  assert.deepEqual([inner.getUint8(0), inner.getUint8(1), inner.byteLength], [1, 2, 2]);
  assert.deepEqual(list, [1, null, "x"]);
});
