// @ts-check
// Decode: what `wire.py` packed. Views never touch bytes.

/**
 * A token: where it stands in its part of the text, whether it may be ranked, whether it begins a word.
 * @typedef {{ part: number, start: number, end: number, special: boolean, first: boolean, text: string, name: string }} Token
 * @typedef {{ parts: string[], count: number, spans: DataView, names: Record<string, string> }} WiredTokens
 */

export const FULL = 32767;

/**
 * The tokens of a text; `text` is what they cover as typed, `name` what the model calls them.
 * @param {WiredTokens} wired
 * @returns {Token[]}
 */
export function tokensOf({ parts, count, spans, names }) {
  const next = varints(spans);
  const found = [];
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
    found.push({ part, start, end, special: !!(flags & 2), first: !!(flags & 1), text, name: names[i] ?? text });
    at = Math.max(at, end);
  }
  return found;
}

/**
 * Rows of scores; `scales` says what the largest int16 of each row stands for.
 * @param {DataView} bytes
 * @param {number[]} scales
 * @returns {Float64Array[]}
 */
export function rowsOf(bytes, scales) {
  const width = scales.length ? bytes.byteLength / 2 / scales.length : 0;
  return scales.map((scale, row) =>
    Float64Array.from({ length: width }, (_, i) => (bytes.getInt16(2 * (row * width + i), true) / FULL) * scale),
  );
}

/**
 * Reads whole numbers in groups of seven bits, lowest first.
 * @param {DataView} bytes
 */
function varints(bytes) {
  let at = 0;
  return () => {
    let number = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = bytes.getUint8(at++);
      number += (byte & 127) * shift;
      if (byte < 128) return number;
    }
  };
}
