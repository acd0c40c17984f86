// Layer norm, GELU and softmax, with their gradients.

const STEPS = 64; // of the table of the normal distribution in a unit
const END = 6; // beyond, its value is 0 or 1 to nine digits
const ROOT = Math.sqrt(2 * Math.PI);

const density = (x: number) => Math.exp((-x * x) / 2) / ROOT;

const start = (i: number) => i / STEPS - END;
const DENSITIES = Float64Array.from({ length: 2 * END * STEPS + 1 }, (_, i) => density(start(i)));

/** The normal distribution from -END to END; each step is integrated by Simpson's rule. */
const SHARES = DENSITIES.slice();
SHARES[0] = 0;
for (let i = 1; i < SHARES.length; i++) {
  const middle = density(start(i) - 1 / (2 * STEPS));
  SHARES[i] = SHARES[i - 1] + (DENSITIES[i - 1] + 4 * middle + DENSITIES[i]) / (6 * STEPS);
}

/** The normal distribution, from the table by cubic interpolation: 2e-10 off at most between its entries. */
function normal(x: number): number {
  const place = (x + END) * STEPS;
  if (place <= 0) return 0;
  if (place >= SHARES.length - 1) return 1;
  const i = Math.floor(place);
  const t = place - i;
  const [first, last] = [DENSITIES[i] / STEPS, DENSITIES[i + 1] / STEPS];
  const rise = SHARES[i + 1] - SHARES[i];
  return SHARES[i] + t * (first + t * (3 * rise - 2 * first - last + t * (first + last - 2 * rise)));
}

/** Write the GELU of each number. */
export function gelu(x: Float32Array, y: Float32Array) {
  for (let i = 0; i < y.length; i++) y[i] = x[i] * normal(x[i]);
}

/** Multiply each number by the GELU's derivative at the same place in `x`. */
export function geluGradient(x: Float32Array, gradient: Float32Array) {
  for (let i = 0; i < gradient.length; i++) gradient[i] *= normal(x[i]) + x[i] * density(x[i]);
}

export interface Norm {
  weight: Float32Array;
  bias: Float32Array;
  epsilon: number;
}

/** Write the layer norm of each row of `x`. */
export function layerNorm(x: Float32Array, y: Float32Array, { weight, bias, epsilon }: Norm) {
  const width = weight.length;
  for (let start = 0; start < y.length; start += width) {
    const { mean, scale } = moments(x, start, width, epsilon);
    for (let k = 0; k < width; k++) y[start + k] = (x[start + k] - mean) * scale * weight[k] + bias[k];
  }
}

/** Turn the gradient of a layer norm's output into that of its input `x`, in place. */
export function layerNormGradient(x: Float32Array, gradient: Float32Array, { weight, epsilon }: Norm) {
  const width = weight.length;
  for (let start = 0; start < gradient.length; start += width) {
    const { mean, scale } = moments(x, start, width, epsilon);
    let [sum, product] = [0, 0];
    for (let k = 0; k < width; k++) {
      const weighted = gradient[start + k] * weight[k];
      sum += weighted;
      product += weighted * (x[start + k] - mean) * scale;
    }
    for (let k = 0; k < width; k++) {
      const place = (x[start + k] - mean) * scale;
      gradient[start + k] = scale * (gradient[start + k] * weight[k] - sum / width - (place * product) / width);
    }
  }
}

function moments(x: Float32Array, start: number, width: number, epsilon: number) {
  let [sum, squares] = [0, 0];
  for (let k = 0; k < width; k++) sum += x[start + k];
  const mean = sum / width;
  for (let k = 0; k < width; k++) squares += (x[start + k] - mean) ** 2;
  return { mean, scale: 1 / Math.sqrt(squares / width + epsilon) };
}

/** Softmax over the first `count` numbers of each row of `columns`, times a factor before; the others become 0. */
export function softmax(x: Float32Array, columns: number, count: number, factor: number) {
  for (let start = 0; start < x.length; start += columns) {
    let [top, sum] = [-Infinity, 0];
    for (let k = 0; k < count; k++) top = Math.max(top, x[start + k]);
    for (let k = 0; k < count; k++) {
      const share = Math.exp((x[start + k] - top) * factor);
      x[start + k] = share;
      sum += share;
    }
    for (let k = 0; k < columns; k++) x[start + k] = k < count ? x[start + k] / sum : 0;
  }
}

/** Turn the gradient of a softmax's output into that of its input, in place. */
export function softmaxGradient(
  shares: Float32Array,
  gradient: Float32Array,
  columns: number,
  count: number,
  factor: number,
) {
  for (let start = 0; start < gradient.length; start += columns) {
    let sum = 0;
    for (let k = 0; k < count; k++) sum += gradient[start + k] * shares[start + k];
    for (let k = 0; k < columns; k++) {
      gradient[start + k] = k < count ? factor * shares[start + k] * (gradient[start + k] - sum) : 0;
    }
  }
}
