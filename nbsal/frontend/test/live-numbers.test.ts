import assert from "node:assert/strict";
import { test } from "node:test";
import { gelu, geluGradient, layerNorm, layerNormGradient, softmax, softmaxGradient } from "../src/live/functions";
import { type Matrix, Memory } from "../src/live/memory";
import { fromHalf, restored } from "../src/live/weights";

/** The same numbers at each run, between -1 and 1. */
const numbers = (count: number) => Float32Array.from({ length: count }, (_, i) => Math.sin(1 + i * i));

function filled(memory: Memory, rows: number, columns: number): Matrix {
  const matrix = memory.zeros(rows, columns);
  memory.numbers(matrix).set(numbers(rows * columns));
  return matrix;
}

const largestDifference = (first: ArrayLike<number>, second: ArrayLike<number>) =>
  Math.max(...Array.from(first, (value, i) => Math.abs(value - second[i])));

test("products are those of loops, for any number of rows", () => {
  for (const rows of [1, 2, 3, 13]) {
    const memory = new Memory();
    const [x, w, bias] = [filled(memory, rows, 8), filled(memory, 20, 8), filled(memory, 1, 20)];
    const y = memory.numbers(memory.multiply(x, w, bias)).slice();
    const [a, b, c] = [x, w, bias].map((matrix) => memory.numbers(matrix));
    const truth = Array.from(y, (_, i) => {
      const [row, column] = [Math.floor(i / 20), i % 20];
      return c[column] + [...a.slice(8 * row, 8 * row + 8)].reduce((sum, v, k) => sum + v * b[8 * column + k], 0);
    });
    assert.ok(largestDifference(y, truth) < 1e-6);
  }
});

test("the denominator of a softmax is that of float64, also far from 0", () => {
  const memory = new Memory();
  for (const shift of [0, 80, -95]) {
    const row = filled(memory, 1, 64);
    const values = memory.numbers(row).map((value) => 60 * value + shift);
    memory.numbers(row).set(values);
    const top = memory.largest(row, 0, 64);
    assert.equal(top, Math.max(...values));
    const truth = values.reduce((sum, value) => sum + Math.exp(value - top), 0);
    assert.ok(Math.abs(memory.exponentials(row, 0, 64, top) / truth - 1) < 1e-6);
  }
});

/** The normal distribution by its series. */
function normal(x: number) {
  let [term, sum] = [x, x];
  for (let n = 1; n < 120; n++) {
    term *= (x * x) / (2 * n + 1);
    sum += term;
  }
  return 0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
}

test("GELU is exact to float32, on both sides of its table too", () => {
  const x = Float32Array.from({ length: 301 }, (_, i) => (i - 150) / 23);
  const y = new Float32Array(x.length);
  gelu(x, y);
  const truth = x.map((value) => value * normal(value));
  assert.ok(largestDifference(y, truth) < 1e-6);
});

/** The gradient of a weighted sum of a function's output, by differences. */
function byDifferences(x: Float32Array, weights: Float32Array, apply: (x: Float32Array, y: Float32Array) => void) {
  const total = (input: Float32Array) => {
    const y = new Float32Array(x.length);
    apply(input, y);
    return y.reduce((sum, value, i) => sum + value * weights[i], 0);
  };
  const step = 1e-2;
  return x.map((_, i) => {
    const [up, down] = [step, -step].map((shift) => total(x.map((value, k) => (k === i ? value + shift : value))));
    return (up - down) / (2 * step);
  });
}

test("gradients are those by differences", () => {
  const [x, weights] = [numbers(12), numbers(24).slice(12)];
  const norm = { weight: numbers(4), bias: numbers(4), epsilon: 0.1 };
  const gradients = [weights, weights, weights].map((values) => values.slice());
  geluGradient(x, gradients[0]);
  layerNormGradient(x, gradients[1], norm);
  const shares = x.slice();
  softmax(shares, 4, 3, 0.5);
  softmaxGradient(shares, gradients[2], 4, 3, 0.5);
  const softmaxed = (input: Float32Array, y: Float32Array) => {
    y.set(input);
    softmax(y, 4, 3, 0.5);
  };
  const truths = [gelu, (a: Float32Array, b: Float32Array) => layerNorm(a, b, norm), softmaxed].map((apply) =>
    byDifferences(x, weights, apply),
  );
  for (const [i, truth] of truths.entries()) assert.ok(largestDifference(gradients[i], truth) < 1e-3);
});

test("half precision and packed weights are read as they were written", () => {
  const halves: [number, number][] = [
    [0x3c00, 1],
    [0xc000, -2],
    [0x3555, 0.333251953125],
    [0x0001, 2 ** -24],
    [0x8400, -(2 ** -14)],
    [0x0000, 0],
  ];
  for (const [bits, value] of halves) assert.equal(fromHalf(bits), value);
  const bytes = new ArrayBuffer(16 + 2 + 32);
  new DataView(bytes).setUint16(16, 0xb800, true); // -0.5
  new Int8Array(bytes, 18).set([0x7f, -127, 3]);
  assert.deepEqual([...restored(bytes, { at: 16, shape: [1, 3], bits: 8 })], [-63.5, 63.5, -1.5]);
  new Uint8Array(bytes, 18).set([0x8f, 0x71]);
  assert.deepEqual([...restored(bytes, { at: 16, shape: [4], bits: 4 })], [0.5, 4, -0.5, -3.5]);
});
