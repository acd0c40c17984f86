import assert from "node:assert/strict";
import { test } from "node:test";
import { bandPath, HEIGHT, linePath, MARGIN, nearest, plot, valueAt } from "../src/chart-geometry";

const line = { name: "a", area: 0.5, at: [0, 0.5, 1], values: [1, 0, 0.5], low: [0.8, -1, 0], high: [1, 1, 1] };

test("a plot of probabilities goes from 0 to 1, any other from the least value to the largest", () => {
  const { x, y } = plot([line], 300, true);
  assert.deepEqual([x(0), x(1)], [MARGIN.left, 300 - MARGIN.right]);
  assert.deepEqual([y(0), y(1)], [HEIGHT - MARGIN.bottom, MARGIN.top]);
  const other = plot([line], 300, false);
  assert.deepEqual([other.low, other.high], [-1, 1]);
  assert.equal(other.y(-1), HEIGHT - MARGIN.bottom);
});

test("a flat line can be plotted", () => {
  const { y } = plot([{ ...line, values: [2, 2, 2], low: undefined, high: undefined }], 300, false);
  assert.ok(Number.isFinite(y(2)));
});

test("a path goes through every point, a band back along its lower edge", () => {
  const axes = { x: (share: number) => share * 100, y: (value: number) => value * 10 };
  assert.equal(linePath(line.at, line.values, axes), "M0.0 10.0L50.0 0.0L100.0 5.0");
  assert.equal(bandPath(line, axes), "M0.0 10.0L50.0 10.0L100.0 10.0L100.0 0.0L50.0 -10.0L0.0 8.0Z");
});

test("the nearest point is found, the first of two equally near", () => {
  assert.deepEqual(
    [0, 2, 3, 9, -4].map((value) => nearest([0, 2, 4], value)),
    [0, 1, 1, 2, 0],
  );
});

test("values between points lie on the line", () => {
  assert.deepEqual(
    [0, 0.25, 0.5, 0.75, 1, 2].map((share) => valueAt(line, share)),
    [1, 0.5, 0, 0.25, 0.5, 0.5],
  );
});
