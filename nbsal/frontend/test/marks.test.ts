import assert from "node:assert/strict";
import { test } from "node:test";
import { gapsOf, largestOf, marksOf, namedMark, ranks, totals } from "../src/text/marks";

const token = (start: number, end: number, { first = true, special = false, part = 0 } = {}) => {
  return { part, start, end, first, special };
};
const TEXT = "un fit ok";
const TOKENS = [token(0, 0, { special: true }), token(0, 2), token(3, 4), token(4, 6, { first: false }), token(7, 9)];

test("at token level each token is a mark, at word level each word", () => {
  assert.deepEqual(
    marksOf(TOKENS, "token").map((mark) => mark.tokens),
    [[1], [2], [3], [4]],
  );
  assert.deepEqual(
    marksOf(TOKENS, "word").map(({ start, end, tokens }) => [start, end, tokens]),
    [
      [0, 2, [1]],
      [3, 6, [2, 3]],
      [7, 9, [4]],
    ],
  );
});

test("a token within a word is named with the rest of the word", () => {
  const names = marksOf(TOKENS, "token").map((mark) => namedMark(mark, [TEXT]));
  assert.deepEqual(
    names.map(({ before, text, after, word }) => [before, text, after, word]),
    [
      ["", "un", "", "un"],
      ["", "f", "it", "fit"],
      ["f", "it", "", "fit"],
      ["", "ok", "", "ok"],
    ],
  );
});

test("tokens of one character share its mark, and overlaps are cut", () => {
  const marks = marksOf([token(0, 2), token(0, 2, { first: false }), token(1, 4)], "token");
  assert.deepEqual(
    marks.map(({ start, end, tokens }) => [start, end, tokens]),
    [
      [0, 2, [0, 1]],
      [2, 4, [2]],
    ],
  );
});

test("marks and gaps together are the text as typed, at either level", () => {
  const parts = [TEXT, "a pair."];
  const tokens = [...TOKENS, token(0, 1, { part: 1 }), token(2, 6, { part: 1 })];
  for (const level of ["token", "word"] as const) {
    const marks = marksOf(tokens, level);
    const { gaps, tails } = gapsOf(marks, parts);
    const joined = parts.map((text, part) => {
      const pieces = marks.map((mark, k) => (mark.part === part ? gaps[k] + text.slice(mark.start, mark.end) : ""));
      return pieces.join("") + tails[part];
    });
    assert.deepEqual(joined, parts);
  }
});

test("the score of a mark is the sum over its tokens, and ranks begin at the largest", () => {
  const scores = totals(marksOf(TOKENS, "word"), [9, 1, -3, 1, 1]);
  assert.deepEqual(scores, [1, -2, 1]);
  assert.deepEqual(ranks(scores), [1, 3, 2]);
  assert.equal(largestOf(scores), 2);
  assert.equal(largestOf([]), 0);
});
