// Matrices in the memory of the WebAssembly kernel, and their products.

import kernel from "../../kernel/kernel.wasm";

const PAGE = 65536; // bytes by which the memory grows
const FLOAT = 4; // bytes
const START = 1024; // 0 stands for no matrix
const TOGETHER = 3; // rows of x that the kernel takes at once; of w it takes 4
/** Matrices have room for a multiple of so many rows, to be multiplied from either side. */
const ROWS = 12;

/** Rows of float32 at a place in the memory; rows beyond `rows`, which fill it up for the kernel, are never read. */
export interface Matrix {
  at: number;
  rows: number;
  columns: number;
}

interface Kernel {
  multiply(...placesAndSizes: number[]): void;
  largest(at: number, count: number): number;
  exponentials(at: number, count: number, top: number): number;
}

export const padded = (rows: number, multiple = ROWS) => Math.ceil(rows / multiple) * multiple;

export class Memory {
  private readonly memory = new WebAssembly.Memory({ initial: 1 });
  private end = START;
  private readonly kernel: Kernel;

  constructor() {
    const module = new WebAssembly.Module(kernel);
    const { exports } = new WebAssembly.Instance(module, { env: { memory: this.memory } });
    this.kernel = exports as unknown as Kernel;
  }

  /** A new matrix; what is in it is undefined. Views of older ones are no longer valid. */
  matrix(rows: number, columns: number): Matrix {
    const at = this.end;
    this.end += padded(rows) * columns * FLOAT;
    const missing = this.end - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / PAGE));
    return { at, rows, columns };
  }

  /** A new matrix with all numbers 0. */
  zeros(rows: number, columns: number): Matrix {
    const matrix = this.matrix(rows, columns);
    new Float32Array(this.memory.buffer, matrix.at, padded(rows) * columns).fill(0);
    return matrix;
  }

  /** The numbers of a matrix, valid until another one is made. */
  numbers({ at, rows, columns }: Matrix): Float32Array {
    return new Float32Array(this.memory.buffer, at, rows * columns);
  }

  /** How much is used, for `release`. */
  get used() {
    return this.end;
  }

  /** Free all matrices that were made since so much was used. */
  release(used: number) {
    this.end = used;
  }

  /** `x` times the transpose of `w`, plus a bias for each column. */
  multiply(x: Matrix, w: Matrix, bias?: Matrix): Matrix {
    const y = this.matrix(x.rows, w.rows);
    this.product({ x, w, y, length: x.columns, columns: w.rows }, bias);
    return y;
  }

  /** Write a product into `y`; `first` is the first column that is read or written of each. */
  product({ x, w, y, length, columns, first = {} }: Product, bias?: Matrix) {
    const at = (matrix: Matrix, column = 0) => matrix.at + column * FLOAT;
    const [rows, start] = [padded(x.rows, TOGETHER), bias ? bias.at : 0];
    const [xAt, wAt, yAt] = [at(x, first.x), at(w, first.w), at(y, first.y)];
    this.kernel.multiply(xAt, x.columns, rows, length, wAt, w.columns, columns, start, yAt, y.columns);
  }

  /** The largest of the first numbers of a row, a multiple of 4. */
  largest = (matrix: Matrix, row: number, count: number) => this.kernel.largest(rowAt(matrix, row), count);

  /** The sum of the exponentials of the first numbers of a row, a multiple of 4, minus `top`. */
  exponentials = (matrix: Matrix, row: number, count: number, top: number) =>
    this.kernel.exponentials(rowAt(matrix, row), count, top);
}

const rowAt = ({ at, columns }: Matrix, row: number) => at + row * columns * FLOAT;

interface Product {
  x: Matrix;
  w: Matrix;
  y: Matrix;
  /** Of the sums. */
  length: number;
  /** That are written, a multiple of 4. */
  columns: number;
  first?: { x?: number; w?: number; y?: number };
}
