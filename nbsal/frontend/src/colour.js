// @ts-check
// Colour: scores as shades. Orange speaks for the target and blue, underlined, against it, as in `render.py`.

export const FOR = [230, 126, 16];
export const AGAINST = [40, 118, 200];
export const STRONGEST = 0.72;
export const FAINT = 0.05;

/** @typedef {{ signed: boolean, gamma: number, clip: number }} Scale */
export const UNSHADED = { css: "", against: false };
export const PLAIN = { signed: true, gamma: 1, clip: 1 };

/**
 * How strongly a score is shaded, from 0 to 1: at `clip` times the largest score it is 1.
 * @param {number} score
 * @param {number} largest
 * @param {Scale} scale
 */
export function strength(score, largest, { signed, gamma, clip }) {
  if (!(largest > 0) || (score < 0 && !signed)) return 0;
  return Math.min(1, Math.abs(score) / (largest * clip)) ** gamma;
}

/**
 * The background of a score, and whether it is marked as speaking against.
 * @param {number} score
 * @param {number} largest
 * @param {Scale} [scale]
 */
export function shade(score, largest, scale = PLAIN) {
  const alpha = STRONGEST * strength(score, largest, scale);
  const [r, g, b] = score < 0 ? AGAINST : FOR;
  const css = alpha < 0.005 ? "" : `rgba(${r}, ${g}, ${b}, ${alpha.toFixed(2)})`;
  return { css, against: score < 0 && alpha >= FAINT };
}

/**
 * The WCAG contrast of two opaque colours.
 * @param {number[]} first
 * @param {number[]} second
 */
export function contrast(first, second) {
  const [dark, light] = [luminance(first), luminance(second)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/**
 * A shade of some opacity on opaque paper.
 * @param {number[]} hue
 * @param {number} alpha
 * @param {number[]} paper
 */
export const over = (hue, alpha, paper) => hue.map((channel, i) => alpha * channel + (1 - alpha) * paper[i]);

/** @param {number[]} colour */
function luminance(colour) {
  const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
