import assert from "node:assert/strict";
import { test } from "node:test";
import { nextItem } from "../src/page/keyboard";

const press = (key: string, active: number, navigation?: Parameters<typeof nextItem>[3]) =>
  nextItem({ key }, active, 10, navigation);

test("arrow, page, Home and End keys stay within the items", () => {
  assert.deepEqual(
    [press("ArrowRight", 3), press("ArrowLeft", 3), press("ArrowLeft", 0), press("ArrowRight", 9)],
    [4, 2, 0, 9],
  );
  assert.deepEqual([press("Home", 3), press("End", 3), press("PageDown", 3), press("PageUp", 3)], [0, 9, 9, 0]);
});

test("n and p go by importance and wrap around", () => {
  const ranked = () => [5, 2, 7];
  assert.deepEqual(
    [press("n", 5, { ranked }), press("n", 7, { ranked }), press("p", 5, { ranked }), press("n", 0, { ranked })],
    [2, 5, 7, 5],
  );
});

test("up and down go by the caller's lines", () => {
  const line = (from: number, direction: number) => from + 4 * direction;
  assert.deepEqual([press("ArrowDown", 1, { line }), press("ArrowUp", 5, { line })], [5, 1]);
});

test("other keys, and any key without items, lead nowhere", () => {
  assert.deepEqual([press("ArrowDown", 1), press("b", 1), press("n", 1)], [null, null, null]);
  assert.equal(nextItem({ key: "End" }, 0, 0), null);
});
