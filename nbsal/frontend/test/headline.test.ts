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
  special: 0.2,
};
const words = (scores: Record<string, number>) =>
  Object.entries(scores).map(([text, score]) => ({ text, score, part: 0 }));
const say = (scores: Record<string, number>, outcome: Partial<Outcome> = {}) =>
  headline({ ...sure, ...outcome }, words(scores))
    .map(([, text]) => text)
    .join("");

test("the words that hold most of the score are named, then notable opponents", () => {
  assert.equal(
    say({ A: 0.1, slow: -1.3, beautifully: 2.8, funny: 1, half: -0.9, warm: 0.5 }),
    "positive, 99.8\u202f% \u2014 mostly because of beautifully, despite slow and half.",
  );
});

test("function words and punctuation are named like all words, as the bars show them", () => {
  assert.equal(say({ the: 3, warm: 1 }), "positive, 99.8\u202f% \u2014 mostly because of the.");
  assert.equal(
    say({ warm: 3, "!": 3, and: -1 }),
    "positive, 99.8\u202f% \u2014 mostly because of warm and \u201c!\u201d, despite and.",
  );
});

test("where special tokens hold most of the score, the sentence is about the words alone", () => {
  assert.match(
    say({ warm: 3, slow: -1 }, { special: 0.9 }),
    / \u2014 among the words, because of warm, despite slow\.$/,
  );
  assert.match(say({ warm: 3 }, { special: 0.5 }), / \u2014 mostly because of warm\.$/);
});

test("a doubtful, a certain and a numeric decision", () => {
  assert.match(say({ a: 1 }, { probability: 0.54 }), /^leaning positive, 54\.0/);
  assert.match(say({ a: 1 }, { probability: 0.99999 }), /over 99\.9/);
  assert.match(say({ a: 1 }, { prediction: "2.31", target: "score", probability: null }), /^2\.31 \u2014 mostly/);
  assert.match(
    say({ a: 1 }, { prediction: "joy 0.25, anger -1.5", target: "anger", probability: null }),
    /^joy 0\.25, anger -1\.5, explained: anger \u2014 mostly/,
  );
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

test("no word decides if all scores are small, or 0", () => {
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`w${i}`, 1]));
  assert.match(say(many), /no single word decides it\.$/);
  assert.match(say({ warm: 0 }), /every word scores 0\.$/);
});

test("words of a pair name their text", () => {
  const phrases = headline({ ...sure, parts: 2 }, [{ text: "indoors", score: 1, part: 1 }]);
  assert.match(phrases.map(([, text]) => text).join(""), /indoors \(second text\)\.$/);
});

const off = { off: 6, total: 72, prediction: "positive", probability: 0.971, targetProbability: 0.971 };

test("with heads off the decision is compared with the one before", () => {
  const words = { warm: 2, slow: -1 };
  assert.equal(
    say(words, { headsOff: off }),
    "positive, 99.8 \u2192 97.1\u202f% with 6 of 72 heads off \u2014 mostly because of warm, despite slow.",
  );
  assert.equal(
    say(words, { headsOff: { ...off, prediction: "negative", probability: 0.121 } }),
    "positive, 99.8 \u2192 12.1\u202f% with 6 of 72 heads off: now negative \u2014 warm speaks for positive; slow against.",
  );
  assert.equal(
    say({ slow: 1 }, { target: "negative", targetProbability: 0.002, headsOff: { ...off, targetProbability: 0.029 } }),
    "Why not negative? (0.2 \u2192 2.9\u202f% with 6 of 72 heads off) \u2014 slow speaks for it.",
  );
});

test("close probabilities have a second digit, and spans none", () => {
  assert.match(say({ a: 1 }, { headsOff: { ...off, probability: 0.9981 } }), /^positive, 99\.80 \u2192 99\.81/);
  const span = { prediction: "in 1889", target: "in 1889 [4:5]", probability: null, targetProbability: null };
  const without = { ...off, probability: null, targetProbability: null };
  assert.match(
    say({ a: 1 }, { ...span, headsOff: { ...without, prediction: "1887" } }),
    /^in 1889 \u2192 1887 with 6 of/,
  );
  assert.match(say({ a: 1 }, { ...span, headsOff: { ...without, prediction: "in 1889" } }), /^in 1889, also with 6 of/);
});

test("a prediction at some place is no other target", () => {
  assert.match(
    say({ warm: 1 }, { prediction: "in 1889", target: "in 1889 [4:5]", probability: null }),
    /^in 1889 \u2014/,
  );
  assert.match(say({ warm: 1 }, { prediction: "B-PER", target: "B-PER at Bob [3]" }), /^B-PER, /);
  assert.match(say({ warm: 1 }, { target: "positive - negative" }), /^Why positive \u2212 negative\?/);
  assert.match(say({ warm: 1 }, { prediction: "O", target: "B-PER at Bob [3]" }), /^Why not B-PER at Bob \[3\]\?/);
});
