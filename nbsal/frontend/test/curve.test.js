import assert from "node:assert/strict";
import test from "node:test";
import { band, EDGE, frame, HIGH, nearest, path, valueAt } from "../src/curve.js";

const line = { name: "a", area: 0.5, at: [0, 0.5, 1], values: [1, 0, 0.5], low: [0.8, -1, 0], high: [1, 1, 1] };

test("probabilities fill the frame from 0 to 1, other values from the least to the largest", () => {
  const { x, y } = frame([line], 300, true);
  assert.deepEqual([x(0), x(1)], [EDGE.left, 300 - EDGE.right]);
  assert.deepEqual([y(0), y(1)], [HIGH - EDGE.bottom, EDGE.top]);
  const other = frame([line], 300, false);
  assert.deepEqual([other.low, other.high], [-1, 1]);
  assert.equal(other.y(-1), HIGH - EDGE.bottom);
});

test("a line that is flat has a frame too", () => {
  assert.ok(Number.isFinite(frame([{ ...line, values: [2, 2, 2], low: undefined, high: undefined }], 300, false).y(2)));
});

test("paths go through every point, and a band back along its lower edge", () => {
  const at = { x: (share) => share * 100, y: (value) => value * 10, low: 0, high: 1 };
  assert.equal(path(line.at, line.values, at), "M0.0 10.0L50.0 0.0L100.0 5.0");
  assert.equal(band(line, at), "M0.0 10.0L50.0 10.0L100.0 10.0L100.0 0.0L50.0 -10.0L0.0 8.0Z");
});

test("the nearest step is found, the first of two", () => {
  assert.deepEqual(
    [0, 2, 3, 9, -4].map((wanted) => nearest([0, 2, 4], wanted)),
    [0, 1, 1, 2, 0],
  );
});

test("values between points lie on the line", () => {
  assert.deepEqual(
    [0, 0.25, 0.5, 0.75, 1, 2].map((share) => valueAt(line, share)),
    [1, 0.5, 0, 0.25, 0.5, 0.5],
  );
});
