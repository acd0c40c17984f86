// Scores of hidden states, and their decoding: how strongly the LM head predicts each token of the text from them.

import { gelu, layerNorm, type Norm } from "./functions";
import { type Matrix, type Memory, padded } from "./memory";
import type { Linear, Weights } from "./weights";

const CHUNK = 4096; // tokens of the vocabulary whose logits are computed at once
const FOUR = 4; // numbers that the kernel takes at once
const FAR = 1e30; // below any logit

/** A layer and a position in it. */
export type Place = [number, number];

export class LMHead {
  private readonly transform: Linear;
  private readonly norm: Norm;
  private readonly weight: Matrix;
  private readonly bias: Matrix;

  constructor(
    private readonly memory: Memory,
    weights: Weights,
    embeddings: Matrix,
  ) {
    this.transform = weights.linear("transform");
    this.norm = weights.norm("transform_norm");
    this.weight = weights.isSame("decoder.weight", "tokens") ? embeddings : weights.matrix("decoder.weight");
    this.bias = weights.matrix("decoder.bias");
  }

  /** What the last linear layer reads, for some of the hidden states. */
  features(hidden: Matrix[], places: Place[]): Matrix {
    const { memory } = this;
    const width = hidden[0].columns;
    const chosen = memory.zeros(places.length, width);
    const to = memory.numbers(chosen);
    for (const [i, [layer, row]] of places.entries()) {
      to.set(memory.numbers(hidden[layer]).subarray(row * width, (row + 1) * width), i * width);
    }
    const dense = memory.multiply(chosen, this.transform.weight, this.transform.bias);
    const features = memory.zeros(places.length, width);
    const values = memory.numbers(dense);
    gelu(values, values);
    layerNorm(values, memory.numbers(features), this.norm);
    return features;
  }

  /** The logits of some tokens, a row for each row of features. */
  logits(features: Matrix, ids: number[]): Float64Array[] {
    const [states, weights, biases] = [features, this.weight, this.bias].map((matrix) => this.memory.numbers(matrix));
    const width = features.columns;
    return Array.from({ length: features.rows }, (_, row) =>
      Float64Array.from(ids, (id) => {
        let sum = biases[id];
        for (let k = 0; k < width; k++) sum += states[row * width + k] * weights[id * width + k];
        return sum;
      }),
    );
  }

  /** The logarithm of the softmax denominator of each row of features. */
  logNormalisers(features: Matrix): Float64Array {
    const { memory, weight } = this;
    const tops = new Float64Array(features.rows).fill(-Infinity);
    const sums = new Float64Array(features.rows);
    const logits = memory.matrix(features.rows, CHUNK);
    for (let first = 0; first < weight.rows; first += CHUNK) {
      const count = Math.min(CHUNK, weight.rows - first);
      const part = { ...weight, at: weight.at + first * weight.columns * 4, rows: count };
      const bias = { ...this.bias, at: this.bias.at + first * 4 };
      const columns = padded(count, FOUR); // the rows that fill up the matrix are 0
      memory.product({ x: features, w: part, y: logits, length: weight.columns, columns }, bias);
      const filled = memory.numbers(logits);
      for (let row = 0; row < features.rows; row++) {
        filled.fill(-FAR, row * CHUNK + count, row * CHUNK + columns);
        const top = Math.max(tops[row], memory.largest(logits, row, columns));
        sums[row] = sums[row] * Math.exp(tops[row] - top) + memory.exponentials(logits, row, columns, top);
        tops[row] = top;
      }
    }
    return sums.map((sum, row) => tops[row] + Math.log(sum));
  }
}

/** The sum of gradient times activation at each position: the scores of gradient times input. */
export function signedScores(hidden: Float32Array, gradient: Float32Array, width: number): Float64Array {
  return Float64Array.from({ length: hidden.length / width }, (_, row) => {
    let sum = 0;
    for (let k = row * width; k < (row + 1) * width; k++) sum += hidden[k] * gradient[k];
    return sum;
  });
}

export interface Decoded {
  ids: number[];
  /** The score of each position before decoding. */
  scores: Float64Array;
  /** Positions whose score is not 0. */
  rows: number[];
  /** Logits of the text's own tokens at these positions, and logarithms of the softmax denominators. */
  logits: Float64Array[];
  normalisers: number[];
  /** Each state counts only for so many tokens; null for all. */
  tau: number | null;
}

/** The tokens of a text without repetition, and for each position the place of its token. */
export function typesOf(ids: number[]) {
  const types = [...new Set(ids)].sort((a, b) => a - b);
  const places = new Map(types.map((id, place) => [id, place]));
  return { types, places: ids.map((id) => places.get(id) as number) };
}

/** The score of each token of the text: the sum of the layer's scores, weighted by how probable each state finds it. */
export function decode({ ids, scores, rows, logits, normalisers, tau }: Decoded): Float64Array {
  const { types, places } = typesOf(ids);
  const totals = new Float64Array(types.length);
  for (const [i, row] of rows.entries()) {
    const counted = strongest(logits[i], tau);
    for (const place of counted) totals[place] += Math.exp(logits[i][place] - normalisers[i]) * scores[row];
  }
  return Float64Array.from(places, (place) => totals[place]);
}

function strongest(logits: Float64Array, count: number | null): number[] {
  const places = [...logits.keys()];
  if (count === null || count >= places.length) return places;
  return places.sort((a, b) => logits[b] - logits[a]).slice(0, count);
}
