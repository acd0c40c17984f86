import assert from "node:assert/strict";
import { test } from "node:test";
import { formatPercent, formatScore } from "../src/format";

test("scores are short and signed", () => {
  assert.deepEqual([0, 0.42, -1.5, 12345, 0.00012].map(formatScore), [
    "0",
    "+0.420",
    "\u22121.50",
    "+1.2e4",
    "+1.2e\u22124",
  ]);
});

test("shares are percentages", () => {
  assert.deepEqual([formatPercent(0.9982), formatPercent(0.5, 0)], ["99.8\u202f%", "50\u202f%"]);
});
