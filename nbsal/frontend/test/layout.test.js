import assert from "node:assert/strict";
import { test } from "node:test";
import { BLOCK, bins, blocks, number, range } from "../src/layout.js";

const marks = (count, part = 0) => Array.from({ length: count }, () => ({ part }));

test("a short text is one block, a pair two", () => {
  const both = [...marks(3), ...marks(2, 1)];
  assert.deepEqual(
    blocks(both, Array(5).fill(" "), () => "x"),
    [0, 3],
  );
  assert.deepEqual(
    blocks([], [], () => "x"),
    [],
  );
});

test("a long text is cut after sentences, and anywhere where none ends", () => {
  const many = marks(4000);
  const sentences = blocks(many, Array(4000).fill(" "), (k) => (k % 7 === 6 ? "." : "x"));
  assert.ok(sentences.length > 10);
  for (const start of sentences.slice(1)) assert.equal(start % 7, 0);
  const endless = blocks(many, Array(4000).fill(" "), () => "x");
  assert.equal(endless[1], 2 * BLOCK);
});

test("a map shows the largest of each stretch, with its sign", () => {
  assert.deepEqual(bins([0, 1, -3, 2, 0, 0.5], 3), [1, -3, 0.5]);
  assert.deepEqual(bins([1, 2], 120), [1, 2]);
  assert.deepEqual(bins([], 120), []);
});

test("a range runs either way", () => {
  assert.deepEqual(range(4, 2), [2, 3, 4]);
  assert.deepEqual(range(2, 2), [2]);
});

test("numbers are short and signed", () => {
  assert.deepEqual([0, 0.42, -1.5, 12345, 0.00012].map(number), [
    "0",
    "+0.420",
    "\u22121.50",
    "+1.2e4",
    "+1.2e\u22124",
  ]);
});
