import assert from "node:assert/strict";
import { test } from "node:test";
import { attentionOf, unitsOf } from "../src/charts/attention-units";

const token = (start: number, end: number, first: boolean, special = false, name = "") => ({
  part: 0,
  start,
  end,
  first,
  special,
  text: "warmly"[start] ?? "",
  name,
});
const tokens = [
  token(0, 0, true, true, "[CLS]"),
  token(0, 4, true),
  token(4, 6, false),
  token(6, 6, true, true, "[SEP]"),
];

test("units are words or tokens, with special tokens in their places", () => {
  assert.deepEqual(
    unitsOf(tokens, ["warmly"], "word").map(({ name }) => name),
    ["[CLS]", "warmly", "[SEP]"],
  );
  assert.deepEqual(
    unitsOf(tokens, ["warmly"], "token").map(({ name }) => name),
    ["[CLS]", "warm", "ly", "[SEP]"],
  );
});

test("the attention of a word is the mean over its tokens and the sum over theirs", () => {
  const units = unitsOf(tokens, ["warmly"], "word");
  const map = [
    [1, 0, 0, 0],
    [0.5, 0.3, 0.1, 0.1],
    [0.1, 0.2, 0.5, 0.2],
    [0, 0, 0, 1],
  ];
  const sums = attentionOf(units[1], units, (query, key) => map[query][key]);
  assert.deepEqual(
    sums.map((sum) => Math.round(100 * sum)),
    [30, 55, 15],
  );
});
