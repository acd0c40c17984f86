import assert from "node:assert/strict";
import { test } from "node:test";
import { Check, planned } from "../src/live/check";
import { statement } from "../src/live/sentence";

const DECISION = { prediction: "positive", target: "positive", probability: 0.998, targetProbability: 0.998, parts: 1 };

/** What is said of words with these scores. */
function said(scores: Record<string, number>, special = 0) {
  const words = Object.entries(scores).map(([text, score]) => ({ text, score, part: 0 }));
  const { sentence } = statement({ ...DECISION, words, special, functionWords: new Set(["the", "it's"]) });
  return sentence
    .map(([, text]) => text)
    .join("")
    .replace("positive, 99.8\u202f%. ", "");
}

test("words are ranked first, and function words are named only if no other word is scored", () => {
  assert.equal(said({ warm: 2, slow: -1 }), "Ranked first: warm; against it: slow (not checked).");
  assert.equal(said({ The: 9, "It\u2019s": 8, ".": 7, warm: 2, ",": -9 }), "Ranked first: warm (not checked).");
  assert.equal(said({ the: 2, ".": 1 }), "Ranked first: the (not checked).");
  assert.equal(said({ slow: -1 }), "No word speaks for it; against it: slow (not checked).");
  assert.equal(said({ ".": -1 }), "No word speaks for it; against it: \u201c.\u201d (not checked).");
});

test("where every word scores 0 it says what to do", () => {
  assert.match(said({ warm: 0 }), /saturated.*Try occlusion\.$/);
  assert.match(said({ warm: 0 }, 1), /special tokens\. Try another layer, or occlusion\.$/);
});

const FUNCTION_WORDS = new Set(["the", "a", "it"]);

const wordsOf = (scores: [string, number][]) => scores.map(([text, score]) => ({ text, score, part: 0 }));

const planOf = (scores: [string, number][]) =>
  planned({ words: wordsOf(scores), functionWords: FUNCTION_WORDS, raises: false, shuffle: (numbers) => numbers });

/** The check of a text whose words have these scores, given the probability of "positive" without each set. */
function checked(scores: [string, number][], without: number[]) {
  const [words, plan] = [wordsOf(scores), planOf(scores)];
  const outcome = (value: number) => ({ prediction: value > 0.5 ? "positive" : "negative", value });
  const check = new Check(plan, outcome(0.998), without.map(outcome), true, false);
  const said = statement({ ...DECISION, words, special: 0, functionWords: FUNCTION_WORDS }, check);
  const sentence = said.sentence.map(([, text]) => text).join("");
  return { ...said, sentence: sentence.replace("positive, 99.8\u202f%. ", "").replaceAll("\u202f", " ") };
}

test("the strongest word, a group of content words and others at random are hidden", () => {
  const { sets, tried, drawn } = planOf([
    ["the", 9],
    ["warm", 2],
    ["A", 1],
    ["joy", 1],
    ["slow", -3],
    ["Warm", 1],
    ["x", 0],
    ["y", 0],
  ]);
  assert.deepEqual([sets, tried, drawn], [[[0], [1, 3, 5], [2, 4, 6]], 2, 3]);
  const alone = planOf([
    ["warm", 2],
    ["y", 0],
    ["z", 0],
  ]);
  assert.deepEqual([alone.sets, alone.tried], [[[0], [1]], 1]); // a second draw would be the same
  assert.deepEqual(planOf([["slow", -2]]).sets, []);
});

test("a checked sentence says what turns the decision, what random words do as well, and what does nothing", () => {
  const scores: [string, number][] = [
    ["warm", 2],
    ["joy", 1],
    ["x", 0],
    ["y", 0],
  ];
  const turned = checked(scores, [0.3, 0.2, 0.99]);
  assert.equal(turned.sentence, "Without warm it would be negative (positive 30.0 %).");
  assert.deepEqual(
    turned.effects.map(([name, , value]) => [name, value]),
    [
      ["without warm", 0.3],
      ["without two random words", 0.99],
    ],
  );
  const group = checked(scores, [0.97, 0.8, 0.7]);
  assert.equal(
    group.sentence,
    "Without warm and joy it would still be positive, at 80.0 %, but a random set does as much (70.0 %).",
  );
  assert.deepEqual([turned.state, group.state, group.effects.length], ["supported", "weak", 3]);
  const none = checked(scores, [0.997, 0.997, 0.997]).sentence;
  assert.match(none, /^None of the 2 sets .*: without warm it would still be positive, at 99\.7 %\.$/);
  assert.equal(checked([["slow", -2]], []).sentence, "No word speaks for it.");
});
