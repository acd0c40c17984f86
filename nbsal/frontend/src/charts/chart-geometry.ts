// Geometry of a line chart: shares of its width and height, paths through its points, values between them.

export const SIZE = 1000; // units of the stretched drawing, in both directions

export interface Line {
  /** Its name and mean, and a tooltip. */
  name: string;
  title: string;
  /** Shares from 0 to 1. */
  at: number[];
  values: number[];
  low?: number[];
  high?: number[];
  /** Whether it is the mean of random orders. */
  random?: boolean;
}

/** The values at the lower and the upper edge of a plot, and the words along its edges. */
export interface Axes {
  low: number;
  high: number;
  /** From the top to the bottom, evenly spaced. */
  values: string[];
  label: string;
  /** Shares of the width, and words. */
  ticks: [number, string][];
}

type Range = Pick<Axes, "low" | "high">;

/** Where a value lies, as a share of the height from the top. */
export const fromTop = (value: number, { low, high }: Range) => (high - value) / (high - low);

/** The path through a line's points. */
export const linePath = (at: number[], values: number[], range: Range) =>
  values
    .map((value, i) => `${i ? "L" : "M"}${Math.round(SIZE * at[i])} ${Math.round(SIZE * fromTop(value, range))}`)
    .join("");

/** The outline of the band around a line. */
export const bandPath = ({ at, low = [], high = [] }: Line, range: Range) =>
  `${linePath(at, high, range)}${linePath([...at].reverse(), [...low].reverse(), range).replace("M", "L")}Z`;

/** The index of the nearest point; of equally near ones the first. */
export function nearest(points: number[], value: number) {
  const distances = points.map((point) => Math.abs(point - value));
  return distances.indexOf(Math.min(...distances));
}
