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
  spans: DataView;
  names: Record<string, string>;
  /** Whether the model did not read the end of the text. */
  cut: boolean;
}

export const FULL = 32767;

export function tokensOf({ parts, count, spans, names }: WiredTokens): Token[] {
  const next = varints(spans);
  const tokens: Token[] = [];
  let part = 0;
  let at = 0;
  for (let i = 0; i < count; i++) {
    const head = next();
    const flags = head & 7;
    const gap = Math.floor(head / 8);
    if (flags & 4) [part, at] = [part + 1, 0];
    const start = at + (gap % 2 ? -(gap + 1) / 2 : gap / 2);
    const end = start + next();
    const text = parts[part].slice(start, end);
    tokens.push({ part, start, end, special: !!(flags & 2), first: !!(flags & 1), text, name: names[i] ?? text });
    at = Math.max(at, end);
  }
  return tokens;
}

/** Rows of scores; `scales` holds what the largest int16 of each row stands for. */
export function rowsOf(bytes: DataView, scales: number[]): Float64Array[] {
  const width = scales.length ? bytes.byteLength / 2 / scales.length : 0;
  return scales.map((scale, row) =>
    Float64Array.from({ length: width }, (_, i) => (bytes.getInt16(2 * (row * width + i), true) / FULL) * scale),
  );
}

/** Read whole numbers in groups of seven bits, lowest first. */
function varints(bytes: DataView) {
  let at = 0;
  return () => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = bytes.getUint8(at++);
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
}
