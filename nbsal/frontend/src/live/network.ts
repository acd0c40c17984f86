// A BERT that classifies texts: all hidden states, and their gradients of a sum of its logits, from one pass.

import { gelu, geluGradient, layerNorm, layerNormGradient, type Norm, softmax, softmaxGradient } from "./functions";
import type { Sizes } from "./manifest";
import { type Matrix, type Memory, padded } from "./memory";
import { type Linear, transpose, type Weights } from "./weights";

interface Block {
  query: Linear;
  key: Linear;
  value: Linear;
  attention: Linear;
  attentionNorm: Norm;
  inner: Linear;
  outer: Linear;
  norm: Norm;
}

/** What a block computed, for its gradient. */
interface BlockTrace {
  query: Matrix;
  key: Matrix;
  value: Matrix;
  /** Of each head: how much each position attends to each. */
  shares: Matrix[];
  /** What enters each layer norm, and what enters the GELU. */
  beforeAttentionNorm: Matrix;
  beforeGelu: Matrix;
  beforeNorm: Matrix;
}

export interface Trace {
  /** The number of positions. */
  count: number;
  /** The output of the embeddings and of each block. */
  hidden: Matrix[];
  blocks: BlockTrace[];
  pooled: Float64Array;
  logits: Float64Array;
}

export class Network {
  private readonly tokens: Matrix;
  private readonly positions: Matrix;
  private readonly types: Float32Array;
  private readonly embeddingNorm: Norm;
  private readonly blocks: Block[];
  private readonly pooler: Linear;
  private readonly classifier: Linear;

  constructor(
    private readonly memory: Memory,
    readonly sizes: Sizes,
    weights: Weights,
  ) {
    this.tokens = weights.matrix("tokens");
    this.positions = weights.matrix("positions");
    this.types = weights.vector("types");
    this.embeddingNorm = weights.norm("norm");
    this.blocks = Array.from({ length: sizes.depth }, (_, block) => ({
      query: weights.linear(`${block}.query`),
      key: weights.linear(`${block}.key`),
      value: weights.linear(`${block}.value`),
      attention: weights.linear(`${block}.attention`),
      attentionNorm: weights.norm(`${block}.attention_norm`),
      inner: weights.linear(`${block}.inner`),
      outer: weights.linear(`${block}.outer`),
      norm: weights.norm(`${block}.norm`),
    }));
    this.pooler = weights.linear("pooler");
    this.classifier = weights.linear("classifier");
  }

  /** The embeddings of the tokens. */
  get embeddings() {
    return this.tokens;
  }

  forward(ids: number[], types: number[], places: number[]): Trace {
    const hidden = [this.embed(ids, types, places)];
    const blocks: BlockTrace[] = [];
    for (const block of this.blocks) {
      const { output, trace } = this.forwardBlock(block, hidden[hidden.length - 1]);
      hidden.push(output);
      blocks.push(trace);
    }
    const first = this.memory.numbers(hidden[hidden.length - 1]).subarray(0, this.sizes.width);
    const pooled = this.applied(this.pooler, first).map(Math.tanh);
    return { count: ids.length, hidden, blocks, pooled, logits: this.applied(this.classifier, pooled) };
  }

  /** The gradients of a weighted sum of the logits, for each of the hidden states. */
  backward({ hidden, blocks, pooled }: Trace, target: number[]): Matrix[] {
    const { memory, sizes } = this;
    const gradients = hidden.map(({ rows, columns }) => memory.zeros(rows, columns));
    const beforeTanh = this.appliedBack(this.classifier, target).map((value, k) => value * (1 - pooled[k] ** 2));
    memory.numbers(gradients[sizes.depth]).set(this.appliedBack(this.pooler, beforeTanh));
    for (let block = sizes.depth - 1; block >= 0; block--) {
      const used = memory.used;
      const gradient = this.backwardBlock(this.blocks[block], blocks[block], gradients[block + 1]);
      memory.numbers(gradients[block]).set(memory.numbers(gradient));
      memory.release(used);
    }
    return gradients;
  }

  private embed(ids: number[], types: number[], places: number[]): Matrix {
    const { memory, sizes } = this;
    const sums = memory.zeros(ids.length, sizes.width);
    const embedded = memory.zeros(ids.length, sizes.width);
    const [from, positions, to] = [this.tokens, this.positions, sums].map((matrix) => memory.numbers(matrix));
    for (const [row, id] of ids.entries()) {
      for (let k = 0; k < sizes.width; k++) {
        const place = row * sizes.width + k;
        const position = positions[places[row] * sizes.width + k];
        to[place] = from[id * sizes.width + k] + this.types[types[row] * sizes.width + k] + position;
      }
    }
    layerNorm(to, memory.numbers(embedded), this.embeddingNorm);
    return embedded;
  }

  private forwardBlock(block: Block, input: Matrix) {
    const { memory } = this;
    const [query, key, value] = [block.query, block.key, block.value].map((linear) => this.apply(linear, input));
    const { mixed, shares } = this.attend(query, key, value);
    const beforeAttentionNorm = this.sum(this.apply(block.attention, mixed), input);
    const middle = this.normalise(beforeAttentionNorm, block.attentionNorm);
    const beforeGelu = this.apply(block.inner, middle);
    const active = memory.matrix(beforeGelu.rows, beforeGelu.columns);
    gelu(memory.numbers(beforeGelu), memory.numbers(active));
    const beforeNorm = this.sum(this.apply(block.outer, active), middle);
    const output = this.normalise(beforeNorm, block.norm);
    const trace: BlockTrace = { query, key, value, shares, beforeAttentionNorm, beforeGelu, beforeNorm };
    return { output, trace };
  }

  private backwardBlock(block: Block, trace: BlockTrace, gradient: Matrix): Matrix {
    const { memory } = this;
    const outer = this.copy(gradient);
    layerNormGradient(memory.numbers(trace.beforeNorm), memory.numbers(outer), block.norm);
    const inner = memory.multiply(outer, block.outer.transposed);
    geluGradient(memory.numbers(trace.beforeGelu), memory.numbers(inner));
    const middle = this.sum(memory.multiply(inner, block.inner.transposed), outer);
    layerNormGradient(memory.numbers(trace.beforeAttentionNorm), memory.numbers(middle), block.attentionNorm);
    const mixed = memory.multiply(middle, block.attention.transposed);
    const { query, key, value } = this.attendBack(trace, mixed);
    const parts = [
      memory.multiply(query, block.query.transposed),
      memory.multiply(key, block.key.transposed),
      memory.multiply(value, block.value.transposed),
    ];
    return parts.reduce((total, part) => this.sum(total, part), middle);
  }

  /** What each position takes over from others, head by head. */
  private attend(query: Matrix, key: Matrix, value: Matrix) {
    const { memory, sizes } = this;
    const [count, size, wide] = [query.rows, sizes.width / sizes.heads, padded(query.rows)];
    const mixed = memory.zeros(count, sizes.width);
    const shares: Matrix[] = [];
    const turned = this.turned(value);
    for (let head = 0; head < sizes.heads; head++) {
      const weights = memory.zeros(wide, wide);
      const column = head * size;
      memory.product({ x: query, w: key, y: weights, length: size, columns: wide, first: { x: column, w: column } });
      softmax(memory.numbers(weights), wide, count, 1 / Math.sqrt(size));
      const values = { ...turned, at: turned.at + column * wide * 4, rows: size };
      memory.product({ x: weights, w: values, y: mixed, length: wide, columns: size, first: { y: column } });
      shares.push(weights);
    }
    return { mixed, shares };
  }

  /** The gradients of query, key and value, given that of what `attend` mixed. */
  private attendBack({ query, key, value, shares }: BlockTrace, mixed: Matrix) {
    const { memory, sizes } = this;
    const [count, size, wide] = [query.rows, sizes.width / sizes.heads, padded(query.rows)];
    const gradients = {
      query: memory.zeros(count, sizes.width),
      key: memory.zeros(count, sizes.width),
      value: memory.zeros(count, sizes.width),
    };
    const turned = { query: this.turned(query), key: this.turned(key), mixed: this.turned(mixed) };
    const rows = (matrix: Matrix, head: number) => ({ ...matrix, at: matrix.at + head * size * wide * 4, rows: size });
    for (const [head, weights] of shares.entries()) {
      const used = memory.used;
      const column = head * size;
      const into = (x: Matrix, w: Matrix, y: Matrix) =>
        memory.product({ x, w, y, length: wide, columns: size, first: { y: column } });
      const change = memory.zeros(wide, wide);
      memory.product({ x: mixed, w: value, y: change, length: size, columns: wide, first: { x: column, w: column } });
      softmaxGradient(memory.numbers(weights), memory.numbers(change), wide, count, 1 / Math.sqrt(size));
      this.clearRows(change, count);
      into(change, rows(turned.key, head), gradients.query);
      into(transpose(memory, change), rows(turned.query, head), gradients.key);
      into(transpose(memory, weights), rows(turned.mixed, head), gradients.value);
      memory.release(used);
    }
    return gradients;
  }

  /** The transpose of a matrix, with zeros where rows are missing. */
  private turned(matrix: Matrix): Matrix {
    const whole = this.memory.zeros(padded(matrix.rows), matrix.columns);
    this.memory.numbers(whole).set(this.memory.numbers(matrix));
    return transpose(this.memory, whole);
  }

  private clearRows(matrix: Matrix, from: number) {
    this.memory.numbers(matrix).fill(0, from * matrix.columns);
  }

  private apply = ({ weight, bias }: Linear, input: Matrix) => this.memory.multiply(input, weight, bias);

  private normalise(input: Matrix, norm: Norm): Matrix {
    const output = this.memory.zeros(input.rows, input.columns);
    layerNorm(this.memory.numbers(input), this.memory.numbers(output), norm);
    return output;
  }

  private copy(matrix: Matrix): Matrix {
    const copy = this.memory.zeros(matrix.rows, matrix.columns);
    this.memory.numbers(copy).set(this.memory.numbers(matrix));
    return copy;
  }

  private sum(first: Matrix, second: Matrix): Matrix {
    const total = this.memory.zeros(first.rows, first.columns);
    const [a, b, sum] = [first, second, total].map((matrix) => this.memory.numbers(matrix));
    for (let i = 0; i < sum.length; i++) sum[i] = a[i] + b[i];
    return total;
  }

  /** A linear layer of one vector. */
  private applied({ weight, bias }: Linear, input: ArrayLike<number>): Float64Array {
    const [numbers, biases] = [this.memory.numbers(weight), this.memory.numbers(bias)];
    return Float64Array.from({ length: weight.rows }, (_, row) => {
      let sum = biases[row];
      for (let k = 0; k < weight.columns; k++) sum += numbers[row * weight.columns + k] * input[k];
      return sum;
    });
  }

  /** The gradient of a linear layer's input, of one vector. */
  private appliedBack({ weight }: Linear, gradient: ArrayLike<number>): Float64Array {
    const numbers = this.memory.numbers(weight);
    return Float64Array.from({ length: weight.columns }, (_, k) => {
      let sum = 0;
      for (let row = 0; row < weight.rows; row++) sum += numbers[row * weight.columns + k] * gradient[row];
      return sum;
    });
  }
}
