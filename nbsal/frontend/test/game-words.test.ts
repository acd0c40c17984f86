import assert from "node:assert/strict";
import { test } from "node:test";
import { type Steps, stepPhrases, stepTag } from "../src/game-words";

const hiding: Steps = {
  game: "hiding",
  points: [0, 1, 2, 3],
  labels: ["negative", "positive"],
  outcomes: [0.998, 0.9, 0.2, 0.7].map((p) => [1 - p, p]),
  probable: true,
};
const say = (steps: Steps, position: number) =>
  stepPhrases(steps, position)
    .map(([, text]) => text.replace("\u202f", " "))
    .join("");

test("a step of hiding names the decision, what it was, and the word that turned it", () => {
  assert.deepEqual(
    [0, 1, 2, 3].map((position) => say(hiding, position)),
    [
      "The whole text: positive, 99.8 %.",
      "After hiding 1 word: still positive, 90.0 % — it was 99.8 %.",
      "After hiding 2 words: negative, 80.0 % — it was positive, 99.8 %. The second word turned it.",
      "With all 3 words hidden: positive again, 70.0 %, as for an empty text — it was 99.8 %.",
    ],
  );
});

test("a step of several words names them all", () => {
  assert.match(say({ ...hiding, points: [0, 10, 20, 30] }, 2), /Words 11 to 20 turned it\.$/);
  assert.match(say({ ...hiding, points: [0, 21, 22, 23] }, 2), /The 22nd word turned it\.$/);
});

test("a step of revealing is compared with all words", () => {
  const revealing: Steps = { ...hiding, game: "revealing", outcomes: [...hiding.outcomes].reverse() };
  assert.equal(say(revealing, 0), "Without any word: positive, 70.0 %, as for an empty text — with all words 99.8 %.");
  assert.equal(
    say(revealing, 1),
    "After revealing 1 word: negative, 80.0 % — with all words positive, 99.8 %. The first word turned it.",
  );
  assert.equal(say(revealing, 3), "With all 3 words: positive, 99.8 %. The second word turned it.");
});

test("an output that is no probability is a number", () => {
  const output: Steps = { ...hiding, labels: ["Paris"], outcomes: [[5.4], [3], [2.31], [1]], probable: false };
  assert.equal(say(output, 2), "After hiding 2 words: the output for Paris is +2.31; it was +5.40.");
  assert.equal(stepTag(output, 1, "Paris", 3), "1 word hidden: Paris +3.00");
  assert.equal(stepTag(hiding, 2, "positive", 0.2).replace("\u202f", " "), "2 words hidden: positive 20.0 %");
});
