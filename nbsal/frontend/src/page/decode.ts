// Decoding of what `wire.py` packs; no other module reads these bytes.

const DAMAGED = "The saved data of this view are damaged. Run the cell again.";

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
  /** Two bytes for each token, little-endian: whether it begins a word, whether it is special, its part. */
  flags: DataView;
  /** The names of tokens whose text does not tell them. */
  names: Record<string, string>;
  /** Whether the model did not read the end of the text. */
  cut: boolean;
}

export class DamagedData extends Error {
  override message = DAMAGED;
}

export function tokensOf({ parts, count, starts, ends, flags, names }: WiredTokens): Token[] {
  const tokenAt = (i: number) => {
    const [start, end] = [starts.getInt32(4 * i, true), ends.getInt32(4 * i, true)];
    const bits = flags.getUint16(2 * i, true);
    const part = bits >> 2;
    const text = parts[part].slice(start, end);
    return { part, start, end, special: !!(bits & 2), first: !!(bits & 1), text, name: names[i] ?? text };
  };
  try {
    return Array.from({ length: count }, (_, i) => tokenAt(i));
  } catch {
    throw new DamagedData(); // fewer bytes than tokens
  }
}

const FLOAT = 4; // bytes

/** Rows of scores, one for each of `count` tokens: float32, little-endian. */
export function rowsOf(bytes: DataView, count: number): Float64Array[] {
  const rows = count ? bytes.byteLength / FLOAT / count : 0;
  return Array.from({ length: Math.floor(rows) }, (_, row) =>
    Float64Array.from({ length: count }, (_, i) => bytes.getFloat32(FLOAT * (row * count + i), true)),
  );
}

/** Rows of scores that are there and complete. */
export function scoresOf(bytes: DataView, count: number): Float64Array[] {
  const rows = rowsOf(bytes, count);
  const complete = rows.length && rows.length * count * FLOAT === bytes.byteLength;
  if (!complete || !rows.every((row) => row.every(Number.isFinite))) throw new DamagedData();
  return rows;
}
