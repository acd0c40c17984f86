import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf, tokensOf } from "../src/page/decode";

/** Numbers as `wire.py` packs them; a page may get them at an odd address. */
function int32(...values: number[]) {
  const view = new DataView(new ArrayBuffer(1 + 4 * values.length), 1);
  for (const [i, value] of values.entries()) view.setInt32(4 * i, value, true);
  return view;
}

const bytes = (...values: number[]) => new DataView(Uint8Array.from(values).buffer);

const WIRED = {
  parts: ["unfit", " ok"],
  count: 5,
  starts: int32(0, 0, 2, 1, 3),
  ends: int32(0, 2, 5, 3, 3),
  flags: bytes(...[0b011, 0b001, 0b000, 0b101, 0b111].flatMap((bits) => [bits, 0])),
  names: { 0: "[CLS]", 4: "[SEP]" },
  cut: false,
};

test("tokens have their places, parts, flags and names", () => {
  const tokens = tokensOf(WIRED);
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

test("too few bytes, or a part that is not there, raise an error", () => {
  assert.throws(() => tokensOf({ ...WIRED, starts: int32(0, 0) }));
  assert.throws(() => tokensOf({ ...WIRED, ends: bytes(0) }));
  assert.throws(() => tokensOf({ ...WIRED, flags: bytes(1) }));
  assert.throws(() => tokensOf({ ...WIRED, flags: bytes(...Array(10).fill(255)) }));
});

test("rows are read in place, aligned or not", () => {
  const view = new DataView(new ArrayBuffer(1 + 16), 1);
  for (const [i, value] of [2, -2, 0, 0.5].entries()) view.setFloat32(4 * i, value, true);
  const rows = rowsOf(view, 2);
  assert.deepEqual(
    rows.map((row) => [...row]),
    [
      [2, -2],
      [0, 0.5],
    ],
  );
  assert.deepEqual(rowsOf(new DataView(new ArrayBuffer(0)), 2), []);
});
