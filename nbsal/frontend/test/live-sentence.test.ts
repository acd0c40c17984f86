import assert from "node:assert/strict";
import { test } from "node:test";
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
