import assert from "node:assert/strict";
import { test } from "node:test";
import { changeWords, nameInSentence } from "../src/text/headline";

const words = (before: number, after: number) => changeWords(before, after).map((text) => text.replace("\u202f", " "));

test("close probabilities have a second digit, and only the last has a sign", () => {
  assert.deepEqual(words(0.998, 0.971), ["99.8", "97.1 %"]);
  assert.deepEqual(words(0.998, 0.9981), ["99.80", "99.81 %"]);
  assert.deepEqual(words(0.9999, 0.5), ["over 99.9", "50.0 %"]);
});

test("punctuation has quotation marks", () => {
  assert.deepEqual(["warm", "!", "\u2019s"].map(nameInSentence), ["warm", "\u201c!\u201d", "\u2019s"]);
});
