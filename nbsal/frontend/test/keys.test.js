import assert from "node:assert/strict";
import { test } from "node:test";
import { step } from "../src/keys.js";

const at = (key, active, ways) => step({ key }, active, 10, ways);

test("arrows, pages and ends stay within the items", () => {
  assert.deepEqual([at("ArrowRight", 3), at("ArrowLeft", 3), at("ArrowLeft", 0), at("ArrowRight", 9)], [4, 2, 0, 9]);
  assert.deepEqual([at("Home", 3), at("End", 3), at("PageDown", 3), at("PageUp", 3)], [0, 9, 9, 0]);
});

test("n and p go by importance, round the end", () => {
  const ranked = () => [5, 2, 7];
  assert.deepEqual(
    [at("n", 5, { ranked }), at("n", 7, { ranked }), at("p", 5, { ranked }), at("n", 0, { ranked })],
    [2, 5, 7, 5],
  );
});

test("lines are the caller's, other keys and no items lead nowhere", () => {
  const line = (from, way) => from + 4 * way;
  assert.deepEqual([at("ArrowDown", 1, { line }), at("ArrowUp", 5, { line })], [5, 1]);
  assert.deepEqual([at("ArrowDown", 1), at("b", 1), at("n", 1), step({ key: "End" }, 0, 0)], [null, null, null, null]);
});
