// @ts-check
// Curve: where points of a chart lie, and which step is nearest.

export const EDGE = { left: 44, right: 20, top: 24, bottom: 34 };
export const HIGH = 226;

/** @typedef {{ name: string, at: number[], values: number[], area: number, low?: number[], high?: number[] }} Line */
/** @typedef {{ x: (share: number) => number, y: (value: number) => number, low: number, high: number }} Frame */

/**
 * The frame of a chart of that width: shares from 0 to 1 across; probabilities from 0 to 1 upwards, else what there is.
 * @param {Line[]} lines
 * @param {number} width
 * @param {boolean} probable
 * @returns {Frame}
 */
export function frame(lines, width, probable) {
  const values = lines.flatMap((line) => [...line.values, ...(line.low ?? []), ...(line.high ?? [])]);
  const [low, high] = probable ? [0, 1] : [Math.min(...values), Math.max(...values)];
  const span = high - low || 1;
  return {
    low,
    high,
    x: (share) => EDGE.left + share * (width - EDGE.left - EDGE.right),
    y: (value) => HIGH - EDGE.bottom - ((value - low) / span) * (HIGH - EDGE.bottom - EDGE.top),
  };
}

/**
 * The path through a line's points.
 * @param {number[]} at
 * @param {number[]} values
 * @param {Frame} frame
 */
export const path = (at, values, { x, y }) =>
  values.map((value, i) => `${i ? "L" : "M"}${x(at[i]).toFixed(1)} ${y(value).toFixed(1)}`).join("");

/**
 * The outline of a band.
 * @param {Line} line
 * @param {Frame} frame
 */
export const band = ({ at, low = [], high = [] }, frame) =>
  `${path(at, high, frame)}${path([...at].reverse(), [...low].reverse(), frame).replace("M", "L")}Z`;

/**
 * The place of the step nearest to a number of tokens; of equally near ones the first.
 * @param {number[]} points
 * @param {number} wanted
 */
export function nearest(points, wanted) {
  let best = 0;
  for (const [i, point] of points.entries()) if (Math.abs(point - wanted) < Math.abs(points[best] - wanted)) best = i;
  return best;
}

/**
 * A line's value at a share, between its points.
 * @param {Line} line
 * @param {number} share
 */
export function valueAt({ at, values }, share) {
  const next = at.findIndex((point) => point >= share);
  if (next <= 0) return next === 0 ? values[0] : /** @type {number} */ (values.at(-1));
  const part = (share - at[next - 1]) / (at[next] - at[next - 1]);
  return values[next - 1] + part * (values[next] - values[next - 1]);
}
