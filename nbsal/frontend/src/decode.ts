// Decoding of what `wire.py` packs; no other module reads these bytes.

/** A token: its place in its part of the text, whether it is left out of rankings, whether it begins a word. */
export interface Token {
  part: number;
  start: number;
  end: number;
  special: boolean;
  first: boolean;
  /** What it covers, as typed. */
  text: string;
  /** What the model calls it. */
  name: string;
}

export interface WiredTokens {
  parts: string[];
  count: number;
  /** Where each token starts and ends in its part: int32, little-endian. */
  starts: DataView;
  ends: DataView;
  /** A byte for each token: whether it begins a word, whether it is special, its part. */
  flags: DataView;
  /** The names of tokens whose text does not tell them. */
  names: Record<string, string>;
  /** Whether the model did not read the end of the text. */
  cut: boolean;
}

export const FULL = 32767;

export const tokensOf = ({ parts, count, starts, ends, flags, names }: WiredTokens): Token[] =>
  Array.from({ length: count }, (_, i) => {
    const [start, end] = [starts.getInt32(4 * i, true), ends.getInt32(4 * i, true)];
    const bits = flags.getUint8(i);
    const part = bits >> 2;
    const text = parts[part].slice(start, end);
    return { part, start, end, special: !!(bits & 2), first: !!(bits & 1), text, name: names[i] ?? text };
  });

/** Rows of scores; `scales` holds what the largest int16 of each row stands for. */
export function rowsOf(bytes: DataView, scales: number[]): Float64Array[] {
  const width = scales.length ? bytes.byteLength / 2 / scales.length : 0;
  return scales.map((scale, row) =>
    Float64Array.from({ length: width }, (_, i) => (bytes.getInt16(2 * (row * width + i), true) / FULL) * scale),
  );
}
