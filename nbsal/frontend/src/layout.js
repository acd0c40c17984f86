// @ts-check
// Layout: where long texts are cut into blocks a browser can skip, and what a minimap shows of them.

export const BLOCK = 200; // marks; blocks beat a flat run of spans from a few thousand on
const ONE = 1500; // up to here one block does, and no line is broken for its sake
const BREAK = /[\n.!?。！？]\s*$/;

/**
 * Where blocks begin: after a sentence or line near every BLOCK marks, and at each part of the text.
 * @param {{ part: number }[]} marks
 * @param {string[]} gaps the text before each mark
 * @param {(k: number) => string} textOf the text of a mark
 */
export function blocks(marks, gaps, textOf) {
  /** @type {number[]} */
  const starts = [];
  marks.forEach((mark, k) => {
    const size = k - (starts.at(-1) ?? 0);
    const ended = () => BREAK.test(textOf(k - 1) + gaps[k]);
    const full = marks.length > ONE && (size >= 2 * BLOCK || (size >= BLOCK && ended()));
    if (k === 0 || mark.part !== marks[k - 1].part || full) starts.push(k);
  });
  return starts;
}

/**
 * The largest size in each of `count` equal stretches.
 * @param {number[]} values
 * @param {number} count
 */
export function bins(values, count) {
  const found = new Array(Math.min(count, values.length)).fill(0);
  values.forEach((value, i) => {
    const bin = Math.floor((i * found.length) / values.length);
    if (Math.abs(value) > Math.abs(found[bin])) found[bin] = value;
  });
  return found;
}

/**
 * The whole numbers from the smaller to the larger of two.
 * @param {number} first
 * @param {number} second
 */
export function range(first, second) {
  const start = Math.min(first, second);
  return Array.from({ length: Math.abs(second - first) + 1 }, (_, i) => start + i);
}

/**
 * A number as people read it.
 * @param {number} value
 */
export function number(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const shown = size >= 1e4 || size < 1e-3 ? value.toExponential(1) : value.toPrecision(3);
  return (value > 0 ? "+" : "") + shown.replace("-", "\u2212").replace("e+", "e");
}
