// The product of two matrices in AssemblyScript, compiled to WebAssembly with SIMD: nearly all the time of a live page.

const FLOAT: usize = 4; // bytes
const VECTOR: usize = 16;

/**
 * Write x times the transpose of w, plus a bias (0 for none), into y. All are float32; strides count numbers from row
 * to row. The rows of x must be a multiple of 3, those of w and their length a multiple of 4.
 */
export function multiply(
  x: usize,
  xStride: usize,
  rows: usize,
  length: usize,
  w: usize,
  wStride: usize,
  columns: usize,
  bias: usize,
  y: usize,
  yStride: usize,
): void {
  const size = length * FLOAT;
  const xStep = xStride * FLOAT;
  const wStep = wStride * FLOAT;
  const yStep = yStride * FLOAT;
  for (let column: usize = 0; column < columns; column += 4) {
    const w0 = w + column * wStep;
    const w1 = w0 + wStep;
    const w2 = w1 + wStep;
    const w3 = w2 + wStep;
    const start = bias ? v128.load(bias + column * FLOAT) : f32x4.splat(0);
    for (let row: usize = 0; row < rows; row += 3) {
      const x0 = x + row * xStep;
      const x1 = x0 + xStep;
      const x2 = x1 + xStep;
      // The sums of three rows with four columns fit into registers.
      let a0 = f32x4.splat(0);
      let a1 = a0;
      let a2 = a0;
      let a3 = a0;
      let b0 = a0;
      let b1 = a0;
      let b2 = a0;
      let b3 = a0;
      let c0 = a0;
      let c1 = a0;
      let c2 = a0;
      let c3 = a0;
      for (let at: usize = 0; at < size; at += VECTOR) {
        const u0 = v128.load(w0 + at);
        const u1 = v128.load(w1 + at);
        const u2 = v128.load(w2 + at);
        const u3 = v128.load(w3 + at);
        let v = v128.load(x0 + at);
        a0 = f32x4.add(a0, f32x4.mul(v, u0));
        a1 = f32x4.add(a1, f32x4.mul(v, u1));
        a2 = f32x4.add(a2, f32x4.mul(v, u2));
        a3 = f32x4.add(a3, f32x4.mul(v, u3));
        v = v128.load(x1 + at);
        b0 = f32x4.add(b0, f32x4.mul(v, u0));
        b1 = f32x4.add(b1, f32x4.mul(v, u1));
        b2 = f32x4.add(b2, f32x4.mul(v, u2));
        b3 = f32x4.add(b3, f32x4.mul(v, u3));
        v = v128.load(x2 + at);
        c0 = f32x4.add(c0, f32x4.mul(v, u0));
        c1 = f32x4.add(c1, f32x4.mul(v, u1));
        c2 = f32x4.add(c2, f32x4.mul(v, u2));
        c3 = f32x4.add(c3, f32x4.mul(v, u3));
      }
      const out = y + row * yStep + column * FLOAT;
      v128.store(out, f32x4.add(start, sums(a0, a1, a2, a3)));
      v128.store(out + yStep, f32x4.add(start, sums(b0, b1, b2, b3)));
      v128.store(out + 2 * yStep, f32x4.add(start, sums(c0, c1, c2, c3)));
    }
  }
}

/** The sums of the four numbers in each of four vectors. */
function sums(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = f32x4.add(v128.shuffle<f32>(a, b, 0, 4, 1, 5), v128.shuffle<f32>(a, b, 2, 6, 3, 7));
  const cd = f32x4.add(v128.shuffle<f32>(c, d, 0, 4, 1, 5), v128.shuffle<f32>(c, d, 2, 6, 3, 7));
  return f32x4.add(v128.shuffle<i64>(ab, cd, 0, 2), v128.shuffle<i64>(ab, cd, 1, 3));
}
