// Geometry of a line chart: where its points lie, paths through them, values between them.

export const MARGIN = { left: 44, right: 20, top: 24, bottom: 34 };
export const HEIGHT = 226;

export interface Line {
  name: string;
  /** Shares from 0 to 1. */
  at: number[];
  values: number[];
  area: number;
  low?: number[];
  high?: number[];
}

/** Pixels of a share and of a value. */
interface Axes {
  x(share: number): number;
  y(value: number): number;
}

interface Plot extends Axes {
  low: number;
  high: number;
}

/** The plot of a chart of that width: from 0 to 1 if values are probabilities, else as far as the values go. */
export function plot(lines: Line[], width: number, probable: boolean): Plot {
  const values = lines.flatMap((line) => [...line.values, ...(line.low ?? []), ...(line.high ?? [])]);
  const [low, high] = probable ? [0, 1] : [Math.min(...values), Math.max(...values)];
  const extent = high - low || 1;
  return {
    low,
    high,
    x: (share) => MARGIN.left + share * (width - MARGIN.left - MARGIN.right),
    y: (value) => HEIGHT - MARGIN.bottom - ((value - low) / extent) * (HEIGHT - MARGIN.bottom - MARGIN.top),
  };
}

/** The path through a line's points. */
export const linePath = (at: number[], values: number[], { x, y }: Axes) =>
  values.map((value, i) => `${i ? "L" : "M"}${x(at[i]).toFixed(1)} ${y(value).toFixed(1)}`).join("");

/** The outline of the band around a line. */
export const bandPath = ({ at, low = [], high = [] }: Line, axes: Axes) =>
  `${linePath(at, high, axes)}${linePath([...at].reverse(), [...low].reverse(), axes).replace("M", "L")}Z`;

/** The index of the nearest point; of equally near ones the first. */
export function nearest(points: number[], value: number) {
  const distances = points.map((point) => Math.abs(point - value));
  return distances.indexOf(Math.min(...distances));
}

/** A line's value at a share, interpolated between its points. */
export function valueAt({ at, values }: Line, share: number) {
  const next = at.findIndex((point) => point >= share);
  if (next === 0) return values[0];
  if (next < 0) return values[values.length - 1];
  const part = (share - at[next - 1]) / (at[next] - at[next - 1]);
  return values[next - 1] + part * (values[next] - values[next - 1]);
}
