import assert from "node:assert/strict";
import { test } from "node:test";
import { AGAINST, FOR, STRONGEST, shade, strength } from "../src/colour";
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

test("the sign is shown by the hue and by the underline", () => {
  assert.deepEqual(shade(1, 1), { css: `rgba(${FOR.join(", ")}, ${STRONGEST})`, against: false });
  assert.deepEqual(shade(-1, 1), { css: `rgba(${AGAINST.join(", ")}, ${STRONGEST})`, against: true });
  assert.deepEqual(shade(-0.001, 1), { css: "", against: false });
});

test("text on the strongest shade is readable in the light and the dark theme", () => {
  const [black, white, dark] = [0, 255, 17].map((level) => [level, level, level]);
  assert.equal(contrast(black, white), 21);
  for (const [ink, paper] of [
    [black, white],
    [white, dark],
  ])
    for (const hue of [FOR, AGAINST])
      assert.ok(contrast(ink, over(hue, STRONGEST, paper)) >= 4.5, `${hue} on ${paper}`);
});
