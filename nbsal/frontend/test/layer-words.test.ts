import assert from "node:assert/strict";
import { test } from "node:test";
import { blankWords, cellWords, layerName, layersFinding } from "../src/text/layer-words";

const texts = ["slow", "warm", "!", "Warm"];
const finding = (...rows: number[][]) => layersFinding(rows, texts, "word").join("");

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
  assert.equal(blankWords(["[CLS]"], true), "all of the score is on [CLS], which the model classifies");
  assert.equal(blankWords(["[CLS]"], false), "all of the score is on [CLS]");
  assert.equal(blankWords(["[CLS]", "[SEP]"], true), "all of the score is on [CLS], [SEP]");
  assert.equal(blankWords([], true), "every token scores 0");
});

test("without such a word the finding says so", () => {
  assert.equal(finding([1, 0, 0, 0], [0, 1, 0, 0]), "Each layer has a strongest word of its own");
  assert.equal(finding([0, 0, 0, 0], [0, 0, 0, 0]), "Every word scores 0 in every layer");
});

test("a cell is a share of its layer's strongest word", () => {
  assert.equal(layerName(0), "embeddings");
  assert.equal(cellWords(5, 0.55, 1, "word").replace("\u202f", " "), "layer 5 · 55 % of that layer’s strongest word");
  assert.match(cellWords(0, -1, 2, "token"), /^embeddings · against, 50.% of that layer’s strongest token$/);
  assert.match(cellWords(1, 0, 0, "word"), /0.% of/);
});
