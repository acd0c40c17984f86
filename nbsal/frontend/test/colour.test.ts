import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { shade, strength, UNSHADED } from "../src/text/colour";
import { contrast, over } from "./wcag";

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

const css = readFileSync("src/page/base.css", "utf8");
const rgb = (hex: string) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
/** A colour of the style sheet in the light and in the dark theme. */
const both = (name: string) =>
  (css.match(new RegExp(`--nbsal-${name}: .*light-dark\\((#\\w+), (#\\w+)\\)`)) ?? []).slice(1).map(rgb);
const HUES = [both("for"), both("against")];
const [DARK_PAPER, WHITE] = [both("paper").at(-1) ?? [], rgb("#ffffff")];

test("text on full colour is readable in the light and the dark theme", () => {
  for (const [light, dark] of HUES) {
    assert.ok(contrast(both("ink")[0], light) >= 4.5);
    assert.ok(contrast(WHITE, dark) >= 4.5);
  }
});

test("in the dark theme faint shades are seen and each shade can be told from the next", () => {
  const lift = Number(css.match(/pow\(var\(--strength\), ([\d.]+)\)/)?.[1]);
  for (const [, hue] of HUES) {
    const shades = [0, 0.1, 0.25, 0.5, 0.75, 1].map((strength) => over(hue, strength ** lift, DARK_PAPER));
    for (const [k, shade] of shades.slice(1).entries()) assert.ok(contrast(shade, shades[k]) >= 1.1, String(k));
  }
});
