import assert from "node:assert/strict";
import { test } from "node:test";
import { shade, strength, UNSHADED } from "../src/colour";
import { contrast } from "./wcag";

const SCALE = { signed: true, gamma: 1, clip: 1 };

test("strength grows with the size of the score and is clipped", () => {
  assert.equal(strength(0.5, 2, SCALE), 0.25);
  assert.equal(strength(-0.5, 2, SCALE), 0.25);
  assert.equal(strength(9, 2, SCALE), 1);
  assert.equal(strength(0.5, 2, { ...SCALE, clip: 0.5 }), 0.5);
  assert.equal(strength(0.5, 2, { ...SCALE, gamma: 0.5 }), 0.5);
  assert.equal(strength(-0.5, 2, { ...SCALE, signed: false }), 0);
  assert.equal(strength(1, 0, SCALE), 0);
});

test("the sign is a side of its own, and faint scores are marked less", () => {
  assert.deepEqual(shade(1, 1), { strength: 1, against: false, faint: false });
  assert.deepEqual(shade(-1, 1), { strength: 1, against: true, faint: false });
  assert.deepEqual(shade(-0.05, 1), { strength: 0.05, against: true, faint: true });
  assert.deepEqual(shade(-0.001, 1), UNSHADED);
});

/** Ink, and the full colours behind it, of base.css. */
const THEMES = [
  ["#1c1e22", "#f0993c", "#6aa3e0"],
  ["#e4e6ea", "#96530a", "#2564a9"],
];
const rgb = (hex: string) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));

test("text on full colour is readable in the light and the dark theme", () => {
  for (const [ink, ...hues] of THEMES)
    for (const hue of hues) assert.ok(contrast(rgb(ink), rgb(hue)) >= 4.5, `${ink} on ${hue}`);
});
