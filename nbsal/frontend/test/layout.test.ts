import assert from "node:assert/strict";
import { test } from "node:test";
import { BLOCK, bins, blocks, range } from "../src/text/layout";

const marks = (count: number, part = 0) => Array.from({ length: count }, () => ({ part }));
const spaces = (count: number) => Array<string>(count).fill(" ");

test("a short text is one block, a pair two", () => {
  const pair = [...marks(3), ...marks(2, 1)];
  assert.deepEqual(
    blocks(pair, spaces(5), () => "x"),
    [0, 3],
  );
  assert.deepEqual(
    blocks([], [], () => "x"),
    [],
  );
});

test("a long text is cut after sentences, and anywhere if none ends", () => {
  const many = marks(4000);
  const sentences = blocks(many, spaces(4000), (k) => (k % 7 === 6 ? "." : "x"));
  assert.ok(sentences.length > 10);
  for (const start of sentences.slice(1)) assert.equal(start % 7, 0);
  const endless = blocks(many, spaces(4000), () => "x");
  assert.equal(endless[1], 2 * BLOCK);
});

test("a bin holds the largest value of its interval, with its sign", () => {
  assert.deepEqual(bins([0, 1, -3, 2, 0, 0.5], 3), [1, -3, 0.5]);
  assert.deepEqual(bins([1, 2], 120), [1, 2]);
  assert.deepEqual(bins([], 120), []);
});

test("a range may be given in either order", () => {
  assert.deepEqual(range(4, 2), [2, 3, 4]);
  assert.deepEqual(range(2, 2), [2]);
});
