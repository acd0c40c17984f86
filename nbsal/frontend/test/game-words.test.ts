import assert from "node:assert/strict";
import { test } from "node:test";
import { type Steps, stepTag } from "../src/panels/game-words";

const hiding: Steps = {
  game: "hiding",
  points: [0, 1, 2, 3],
  labels: ["negative", "positive"],
  outcomes: [0.998, 0.9, 0.2, 0.7].map((p) => [1 - p, p]),
  probable: true,
};

test("a step is a number of words and an output, which may be no probability", () => {
  const output: Steps = { ...hiding, labels: ["Paris"], outcomes: [[5.4], [3], [2.31], [1]], probable: false };
  assert.equal(stepTag(output, 1, "Paris", 3), "1 word hidden: Paris +3.00");
  assert.equal(stepTag(hiding, 2, "positive", 0.2).replace("\u202f", " "), "2 words hidden: positive 20.0 %");
});
