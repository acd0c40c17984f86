import assert from "node:assert/strict";
import { test } from "node:test";
import { bandPath, fromTop, linePath, nearest, rangeOf, ticks } from "../src/charts/chart-geometry";

const line = { name: "a", area: 0.5, at: [0, 0.5, 1], values: [1, 0, 0.5], low: [0.8, -1, 0], high: [1, 1, 1] };

test("a plot of probabilities goes from 0 to 1, any other from the least value to the largest", () => {
  assert.deepEqual(rangeOf([line], true), { low: 0, high: 1 });
  assert.deepEqual(rangeOf([line], false), { low: -1, high: 1 });
  assert.deepEqual([fromTop(1, { low: -1, high: 1 }), fromTop(-1, { low: -1, high: 1 })], [0, 1]);
});

test("a flat line can be plotted", () => {
  const range = rangeOf([{ ...line, values: [2, 2, 2], low: undefined, high: undefined }], false);
  assert.equal(fromTop(2, range), 0.5);
});

test("a path goes through every point, a band back along its lower edge", () => {
  const range = { low: -1, high: 1 };
  assert.equal(linePath(line.at, line.values, range), "M0 0L500 500L1000 250");
  assert.equal(bandPath(line, range), "M0 0L500 0L1000 0L1000 500L500 1000L0 100Z");
});

test("an axis has whole numbers, the last one included", () => {
  assert.deepEqual([16, 3, 0, 14].map(ticks), [
    [0, 4, 8, 12, 16],
    [0, 1, 2, 3],
    [0, 0],
    [0, 4, 7, 11, 14],
  ]);
});

test("the nearest point is found, the first of two equally near", () => {
  assert.deepEqual(
    [0, 2, 3, 9, -4].map((value) => nearest([0, 2, 4], value)),
    [0, 1, 1, 2, 0],
  );
});
