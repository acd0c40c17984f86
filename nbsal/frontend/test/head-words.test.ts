import assert from "node:assert/strict";
import { test } from "node:test";
import type { Decision } from "../src/page/traits";
import { attentionOf, attentionWords, changesOf, headsOn, unitsOf } from "../src/panels/head-words";

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

test("the choice says which heads are on", () => {
  const counts = { off: 63, total: 72, toggled: 0, named: true };
  assert.equal(headsOn("both", counts), "Syntax and position");
  assert.equal(headsOn("all", { ...counts, off: 0 }), "All");
  assert.equal(headsOn("all", { ...counts, off: 6, toggled: 6 }), "All but 6");
  assert.equal(headsOn("both", { ...counts, off: 62, toggled: 1 }), "10 of 72");
  assert.equal(headsOn("none", { ...counts, off: 0, toggled: 72 }), "All");
  assert.equal(headsOn("both", { ...counts, named: false }), "The mask");
});

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
  assert.equal(attentionWords("warmly", "[CLS]", 0.3), "warmly attends to [CLS] \u00b7 30\u202f% of its attention");
});

const decision = {
  prediction: "a",
  target: "b",
  probabilities: [
    ["b", 0.2],
    ["a", 0.8],
  ],
} as unknown as Decision;

test("the classes are compared only while a head is off", () => {
  const without = {
    prediction: "b",
    probabilities: [
      ["b", 0.6],
      ["a", 0.4],
    ] as [string, number][],
  };
  const effect = { off: 2, total: 8, without, alone: null, head: null };
  assert.deepEqual(changesOf(decision, effect), [
    { name: "a", before: 0.8, now: 0.4 },
    { name: "b", before: 0.2, now: 0.6 },
  ]);
  assert.deepEqual(changesOf(decision, {})[0], { name: "a", before: 0.8, now: 0.8 });
});
