import assert from "node:assert/strict";
import { test } from "node:test";
import { bandPath, fromTop, linePath, nearest } from "../src/charts/chart-geometry";

const line = { name: "a", title: "", at: [0, 0.5, 1], values: [1, 0, 0.5], low: [0.8, -1, 0], high: [1, 1, 1] };

test("a value lies between the upper and the lower edge", () => {
  assert.deepEqual([fromTop(1, { low: -1, high: 1 }), fromTop(-1, { low: -1, high: 1 })], [0, 1]);
});

test("a path goes through every point, a band back along its lower edge", () => {
  const range = { low: -1, high: 1 };
  assert.equal(linePath(line.at, line.values, range), "M0 0L500 500L1000 250");
  assert.equal(bandPath(line, range), "M0 0L500 0L1000 0L1000 500L500 1000L0 100Z");
});

test("the nearest point is found, the first of two equally near", () => {
  assert.deepEqual(
    [0, 2, 3, 9, -4].map((value) => nearest([0, 2, 4], value)),
    [0, 1, 1, 2, 0],
  );
});
