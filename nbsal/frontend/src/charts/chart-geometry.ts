// Geometry of a line chart: shares of its width and height, paths through its points, values between them.

export const SIZE = 1000; // units of the stretched drawing, in both directions

export interface Line {
  name: string;
  /** Shares from 0 to 1. */
  at: number[];
  values: number[];
  area: number;
  low?: number[];
  high?: number[];
  /** Whether it is the mean of random orders. */
  random?: boolean;
}

/** The values at the lower and the upper edge of a plot. */
export interface Range {
  low: number;
  high: number;
}

/** The range of a chart: from 0 to 1 if values are probabilities, else as far as the values go. */
export function rangeOf(lines: Line[], probable: boolean): Range {
  if (probable) return { low: 0, high: 1 };
  const values = lines.flatMap((line) => [...line.values, ...(line.low ?? []), ...(line.high ?? [])]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high > low ? { low, high } : { low: low - 1, high: high + 1 };
}

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

/** Up to five whole numbers from 0 to `count` for an axis, about evenly spaced. */
export function ticks(count: number) {
  const steps = Math.min(4, count) || 1;
  return Array.from({ length: steps + 1 }, (_, i) => Math.round((count * i) / steps));
}
