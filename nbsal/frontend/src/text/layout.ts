// Layout of long texts: where they are cut into blocks a browser can skip, and what a minimap shows of them.

export const BLOCK = 200; // marks; blocks are faster than a flat run of spans from a few thousand on
const SINGLE_BLOCK = 1500; // up to here one block is enough, and no line has to end early
const BREAK = /[\n.!?。！？]\s*$/;

/** Where blocks begin: after a sentence or line near every BLOCK marks, and at each part of the text. */
export function blocks(marks: { part: number }[], gaps: string[], textOf: (k: number) => string) {
  const starts: number[] = [];
  for (const [k, mark] of marks.entries()) {
    const size = k - (starts.at(-1) ?? 0);
    const atBreak = () => BREAK.test(textOf(k - 1) + gaps[k]);
    const full = marks.length > SINGLE_BLOCK && (size >= 2 * BLOCK || (size >= BLOCK && atBreak()));
    if (k === 0 || mark.part !== marks[k - 1].part || full) starts.push(k);
  }
  return starts;
}

/** The value of largest size in each of `count` equal intervals. */
export function bins(values: number[], count: number) {
  const peaks = new Array<number>(Math.min(count, values.length)).fill(0);
  for (const [i, value] of values.entries()) {
    const bin = Math.floor((i * peaks.length) / values.length);
    if (Math.abs(value) > Math.abs(peaks[bin])) peaks[bin] = value;
  }
  return peaks;
}

/** The whole numbers between two, in ascending order. */
export function range(first: number, second: number) {
  const start = Math.min(first, second);
  return Array.from({ length: Math.abs(second - first) + 1 }, (_, i) => start + i);
}
