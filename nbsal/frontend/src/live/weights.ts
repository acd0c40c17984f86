// The weights of a model, from few bits to float32.

import type { Manifest, Tensor } from "./manifest";
import type { Matrix, Memory } from "./memory";

const BLOCK = 32; // weights that share a scale
const HALF = 2; // bytes of a scale
const FULL = 32; // bits

export interface Linear {
  weight: Matrix;
  bias: Matrix;
  /** The weight transposed, for gradients. */
  transposed: Matrix;
}

export class Weights {
  constructor(
    private readonly memory: Memory,
    private readonly bytes: ArrayBuffer,
    private readonly manifest: Manifest,
  ) {}

  has = (name: string) => name in this.manifest.tensors;

  vector(name: string): Float32Array {
    return restored(this.bytes, this.tensor(name)).slice();
  }

  matrix(name: string): Matrix {
    const tensor = this.tensor(name);
    const columns = tensor.shape[tensor.shape.length - 1];
    const matrix = this.memory.zeros(tensor.shape.length > 1 ? tensor.shape[0] : 1, columns);
    this.memory.numbers(matrix).set(restored(this.bytes, tensor));
    return matrix;
  }

  linear(name: string): Linear {
    const [weight, bias] = [this.matrix(`${name}.weight`), this.matrix(`${name}.bias`)];
    return { weight, bias, transposed: transpose(this.memory, weight) };
  }

  norm(name: string) {
    const { epsilon } = this.manifest.sizes;
    return { weight: this.vector(`${name}.weight`), bias: this.vector(`${name}.bias`), epsilon };
  }

  /** Whether two names stand for the same bytes. */
  isSame = (first: string, second: string) => this.tensor(first).at === this.tensor(second).at;

  private tensor(name: string): Tensor {
    return this.manifest.tensors[name];
  }
}

export function transpose(memory: Memory, matrix: Matrix): Matrix {
  const { rows, columns } = matrix;
  const turned = memory.zeros(columns, rows);
  const [from, to] = [memory.numbers(matrix), memory.numbers(turned)];
  for (let row = 0; row < rows; row++) for (let k = 0; k < columns; k++) to[k * rows + row] = from[row * columns + k];
  return turned;
}

/** The numbers of a tensor. */
export function restored(bytes: ArrayBuffer, { at, shape, bits }: Tensor): Float32Array {
  const size = shape.reduce((product, length) => product * length, 1);
  if (bits === FULL) return new Float32Array(bytes, at, size);
  const blocks = Math.ceil(size / BLOCK);
  const scales = new Uint16Array(bytes, at, blocks);
  const start = at + blocks * HALF;
  const numbers = new Float32Array(blocks * BLOCK);
  if (bits === 8) {
    const levels = new Int8Array(bytes, start, numbers.length);
    for (let i = 0; i < numbers.length; i++) numbers[i] = levels[i];
  } else {
    const pairs = new Uint8Array(bytes, start, numbers.length / 2);
    for (let i = 0; i < pairs.length; i++) {
      numbers[2 * i] = (pairs[i] << 28) >> 28; // with its sign
      numbers[2 * i + 1] = (pairs[i] << 24) >> 28;
    }
  }
  for (let block = 0; block < blocks; block++) {
    const scale = fromHalf(scales[block]);
    for (let i = block * BLOCK; i < (block + 1) * BLOCK; i++) numbers[i] *= scale;
  }
  return numbers.subarray(0, size);
}

/** A number from the bits of its half precision. */
export function fromHalf(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : (fraction / 1024) * 2 ** -14;
  return bits & 0x8000 ? -size : size;
}
