import assert from "node:assert/strict";
import { test } from "node:test";
import { undrawable } from "../src/text/drawable";

test("many marks in a row and endless words are refused, in either text", () => {
  for (const text of [`e${"\u0301".repeat(20_000)}`, "x".repeat(100_000), "7a".repeat(6000)]) {
    assert.notEqual(undrawable(["A film.", text]), "");
  }
});

test("languages with marks or without spaces, and long texts, are taken", () => {
  const texts = [
    "\u597d".repeat(50_000),
    "e\u0301".repeat(20_000),
    "word ".repeat(20_000),
    "Z\u0351\u036b\u0343\u036a",
  ];
  assert.equal(undrawable(texts), "");
});
