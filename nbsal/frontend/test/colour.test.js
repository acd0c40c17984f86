import assert from "node:assert/strict";
import { test } from "node:test";
import { AGAINST, contrast, FOR, over, STRONGEST, shade, strength } from "../src/colour.js";

const SCALE = { signed: true, gamma: 1, clip: 1 };

test("strength grows with the score, is clipped, and keeps its sign to itself", () => {
  assert.equal(strength(0.5, 2, SCALE), 0.25);
  assert.equal(strength(-0.5, 2, SCALE), 0.25);
  assert.equal(strength(9, 2, SCALE), 1);
  assert.equal(strength(0.5, 2, { ...SCALE, clip: 0.5 }), 0.5);
  assert.equal(strength(0.5, 2, { ...SCALE, gamma: 0.5 }), 0.5);
  assert.equal(strength(-0.5, 2, { ...SCALE, signed: false }), 0);
  assert.equal(strength(1, 0, SCALE), 0);
});

test("hue tells the sign, and so does the mark", () => {
  assert.deepEqual(shade(1, 1), { css: `rgba(${FOR.join(", ")}, ${STRONGEST})`, against: false });
  assert.deepEqual(shade(-1, 1), { css: `rgba(${AGAINST.join(", ")}, ${STRONGEST})`, against: true });
  assert.deepEqual(shade(-0.001, 1), { css: "", against: false });
});

test("text on the strongest shade can be read in light and in dark", () => {
  assert.equal(contrast([0, 0, 0], [255, 255, 255]), 21);
  for (const [ink, paper] of [
    [
      [0, 0, 0],
      [255, 255, 255],
    ],
    [
      [255, 255, 255],
      [17, 17, 17],
    ],
  ])
    for (const hue of [FOR, AGAINST])
      assert.ok(contrast(ink, over(hue, STRONGEST, paper)) >= 4.5, `${hue} on ${paper}`);
});
