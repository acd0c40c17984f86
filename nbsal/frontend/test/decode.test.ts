import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf, tokensOf } from "../src/decode";

/** The packing of `wire.py`, a token a line: [flags, gap, length]. */
const packed = (...tokens: number[][]) =>
  new DataView(Uint8Array.from(tokens.flatMap(([f, g, n]) => [2 * g * 8 + f, n])).buffer);

test("tokens come back with their places, parts and names", () => {
  const spans = packed([3, 0, 0], [1, 0, 2], [0, 0, 3], [5, 1, 2], [3, 0, 0]);
  const tokens = tokensOf({ parts: ["unfit", " ok"], count: 5, spans, names: { 0: "[CLS]", 4: "[SEP]" }, cut: false });
  assert.deepEqual(
    tokens.map(({ part, start, end, text, name }) => [part, start, end, text, name]),
    [
      [0, 0, 0, "", "[CLS]"],
      [0, 0, 2, "un", "un"],
      [0, 2, 5, "fit", "fit"],
      [1, 1, 3, "ok", "ok"],
      [1, 3, 3, "", "[SEP]"],
    ],
  );
  assert.deepEqual(
    tokens.map(({ special, first }) => [special, first]),
    [
      [true, true],
      [false, true],
      [false, false],
      [false, true],
      [true, true],
    ],
  );
});

test("rows are read in place, aligned or not", () => {
  const bytes = new Uint8Array(1 + 8);
  const view = new DataView(bytes.buffer);
  view.setInt16(1, 32767, true);
  view.setInt16(3, -32767, true);
  view.setInt16(7, 32767, true);
  const rows = rowsOf(new DataView(bytes.buffer, 1), [2, 0.5]);
  assert.deepEqual(
    rows.map((row) => [...row]),
    [
      [2, -2],
      [0, 0.5],
    ],
  );
  assert.deepEqual(rowsOf(new DataView(new ArrayBuffer(0)), []), []);
});
