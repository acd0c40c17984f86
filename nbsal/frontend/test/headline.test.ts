import assert from "node:assert/strict";
import { test } from "node:test";
import { headline, type Outcome } from "../src/headline";

const sure: Outcome = {
  prediction: "positive",
  target: "positive",
  probability: 0.998,
  targetProbability: 0.998,
  aboutTarget: true,
  parts: 1,
};
const words = (scores: Record<string, number>) =>
  Object.entries(scores).map(([text, score]) => ({ text, score, part: 0 }));
const say = (scores: Record<string, number>, outcome: Partial<Outcome> = {}) =>
  headline({ ...sure, ...outcome }, words(scores))
    .map(([, text]) => text)
    .join("");

test("the words that hold most of the weight are named, then notable opponents", () => {
  assert.equal(
    say({ A: 0.1, slow: -1.3, beautifully: 2.8, funny: 1, half: -0.9, warm: 0.5 }),
    "positive, 99.8\u202f% \u2014 mostly because of beautifully, despite slow and half.",
  );
});

test("stop words and punctuation are named only if nothing else is left", () => {
  assert.equal(say({ the: 3, warm: 1 }), "positive, 99.8\u202f% \u2014 mostly because of warm.");
  assert.equal(say({ the: 3, "!": 1 }), "positive, 99.8\u202f% \u2014 mostly because of the.");
});

test("a doubtful, a certain and a numeric decision", () => {
  assert.match(say({ a: 1 }, { probability: 0.54 }), /^leaning positive, 54\.0/);
  assert.match(say({ a: 1 }, { probability: 0.99999 }), /over 99\.9/);
  assert.match(say({ a: 1 }, { prediction: "2.31", target: "2.31", probability: null }), /^2\.31 \u2014/);
});

test("another class than the prediction is a question", () => {
  assert.equal(
    say({ slow: 1, warm: -2 }, { target: "negative", targetProbability: 0.002 }),
    "Why not negative? (0.2\u202f%) \u2014 slow speaks for it; warm against.",
  );
});

test("scores that are not about the target say what is attended to", () => {
  assert.match(say({ warm: 2, funny: 1 }, { aboutTarget: false }), /warm is attended to most\.$/);
});

test("no word decides if all weigh little, or nothing", () => {
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`w${i}`, 1]));
  assert.match(say(many), /no single word decides it\.$/);
  assert.match(say({ warm: 0 }), /no word has any weight\.$/);
});

test("words of a pair name their text", () => {
  const phrases = headline({ ...sure, parts: 2 }, [{ text: "indoors", score: 1, part: 1 }]);
  assert.match(phrases.map(([, text]) => text).join(""), /indoors \(second text\)\.$/);
});
