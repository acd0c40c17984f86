import assert from "node:assert/strict";
import { test } from "node:test";
import { formatPercent, formatScore, formatScores, nameInSentence } from "../src/live/format";

test("scores are short and signed", () => {
  const scores = [0, 0.42, -1.5, 1234, 12345, 0.00012].map((score) => formatScore(score));
  assert.deepEqual(scores, [
    "0",
    "+0.420",
    "\u22121.50",
    "+1234",
    "+1.23 \u00d7 10\u2074",
    "+1.20 \u00d7 10\u207b\u2074",
  ]);
  assert.equal(formatScore(-3e-7, 9.7e-6), "\u22120.300 \u00d7 10\u207b\u2076");
});

test("a list of scores shares one power of ten", () => {
  assert.deepEqual(formatScores([9.7e-6, -3e-7, 0]), {
    texts: ["+9.70", "\u22120.30", "0"],
    power: "\u00d7 10\u207b\u2076",
  });
  assert.deepEqual(formatScores([0.321, -0.0004]), { texts: ["+0.321", "0"], power: "" });
});

test("shares are percentages", () => {
  assert.deepEqual([formatPercent(0.9982), formatPercent(0.5, 0)], ["99.8\u202f%", "50\u202f%"]);
});

test("punctuation has quotation marks", () => {
  assert.deepEqual(["warm", "!", "\u2019s"].map(nameInSentence), ["warm", "\u201c!\u201d", "\u2019s"]);
});
