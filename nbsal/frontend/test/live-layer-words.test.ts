import assert from "node:assert/strict";
import { test } from "node:test";
import { blankWords, cellWords, layersFinding, layerWords } from "../src/live/layer-words";

const texts = ["slow", "warm", "!", "Warm"];
const finding = (...rows: number[][]) =>
  layersFinding(rows, texts)
    .map(([, words]) => words)
    .join("");
const token = (name: string, special: boolean) => ({
  name,
  text: name,
  special,
  part: 0,
  start: 0,
  end: 1,
  first: true,
});
const tokens = [token("[CLS]", true), token("A", false), token("[SEP]", true)];

test("the finding is the word that is the strongest in most layers", () => {
  assert.equal(
    finding([0, 2, 1, 0], [3, 0, 0, 0], [0, 0, 0, -5]),
    "warm is the strongest word in the embeddings and 1 of 2 layers",
  );
  assert.equal(finding([0, 2, 1, 0], [0, 2, 0, 0]), "warm is the strongest word in the embeddings and 1 of 1 layer");
  assert.equal(
    finding([0, 0, 2, 0], [0, 0, 2, 0], [0, 0, 0, 0]),
    "“!” is the strongest word in the embeddings and 1 of 2 layers",
  );
});

test("layers are counted without the embeddings", () => {
  assert.match(finding([1, 0, 0, 0], [0, 2, 0, 0], [0, 2, 0, 0]), / in both layers$/);
  assert.match(finding([0, 2, 0, 0], [0, 2, 0, 0], [0, 2, 0, 0]), / in the embeddings and both layers$/);
  assert.match(finding([1, 0, 0, 0], [0, 2, 0, 0], [0, 2, 0, 0], [1, 0, 3, 0]), / in 2 of 3 layers$/);
});

test("a blank row says where the score is, and why", () => {
  assert.equal(blankWords(tokens, [1, 0, 0], true), "all of the score is on [CLS], which the model classifies");
  assert.equal(blankWords(tokens, [1, 0, 0], false), "all of the score is on [CLS]");
  assert.equal(blankWords(tokens, [1, 0, 2], true), "all of the score is on [CLS], [SEP]");
  assert.equal(blankWords(tokens, [0, 0, 0], true), "every token scores 0");
  assert.equal(blankWords(tokens, [1, 2, 0], true), "");
});

test("without such a word the finding says so", () => {
  assert.equal(finding([1, 0, 0, 0], [0, 1, 0, 0]), "Each layer has a strongest word of its own");
  assert.equal(finding([0, 0, 0, 0], [0, 0, 0, 0]), "Every word scores 0 in every layer");
});

test("a cell is a share of its layer's strongest word", () => {
  assert.equal(cellWords(0.55, 1).replace("\u202f", " "), "55 %");
  assert.match(cellWords(-1, 2), /^against, 50.%$/);
  assert.match(cellWords(0, 0), /0.%/);
  const { rows, levels } = layerWords(
    tokens,
    ["A"],
    [
      [0, -2, 1],
      [1, 0, 0],
    ],
  );
  assert.deepEqual(rows, ["embeddings", "layer 1"]);
  assert.deepEqual(levels.token.cells[0], ["against, 100\u202f%"]);
  assert.match(levels.word.remarks[1], /CLS/);
});
