// The largest of some logits, and the sum of their exponentials: the denominator of a softmax, in SIMD.

const FLOAT: usize = 4; // bytes
const VECTOR: usize = 16;
const LOWEST: f32 = -126; // exponent of the smallest normal number; what is smaller counts as that
const BIAS = 127; // of exponents
const FRACTION = 23; // bits

/** The largest of `count` numbers, a multiple of 4. */
export function largest(at: usize, count: usize): f32 {
  let tops = f32x4.splat(-f32.MAX_VALUE);
  for (const end = at + count * FLOAT; at < end; at += VECTOR) tops = f32x4.pmax(tops, v128.load(at));
  const first = max(f32x4.extract_lane(tops, 0), f32x4.extract_lane(tops, 1));
  return max(first, max(f32x4.extract_lane(tops, 2), f32x4.extract_lane(tops, 3)));
}

/** The sum of the exponentials of `count` numbers, a multiple of 4, minus `top`. */
export function exponentials(at: usize, count: usize, top: f32): f32 {
  let sums = f32x4.splat(0);
  for (const end = at + count * FLOAT; at < end; at += VECTOR) {
    const distance = f32x4.sub(v128.load(at), f32x4.splat(top));
    sums = f32x4.add(sums, exponential(f32x4.mul(distance, f32x4.splat(Mathf.LOG2E))));
  }
  const first = f32x4.extract_lane(sums, 0) + f32x4.extract_lane(sums, 1);
  return first + f32x4.extract_lane(sums, 2) + f32x4.extract_lane(sums, 3);
}

/** Two to the power of each number: a power of two times the Taylor series of the rest, which is at most a half. */
function exponential(power: v128): v128 {
  const bounded = f32x4.max(power, f32x4.splat(LOWEST));
  const whole = f32x4.nearest(bounded);
  const rest = f32x4.sub(bounded, whole);
  let series = f32x4.splat(0.0000152527);
  series = term(series, rest, 0.000154035);
  series = term(series, rest, 0.00133335581);
  series = term(series, rest, 0.00961812911);
  series = term(series, rest, 0.0555041087);
  series = term(series, rest, 0.240226507);
  series = term(series, rest, Mathf.LN2);
  series = term(series, rest, 1);
  const exponent = i32x4.shl(i32x4.add(i32x4.trunc_sat_f32x4_s(whole), i32x4.splat(BIAS)), FRACTION);
  return f32x4.mul(series, exponent);
}

function term(series: v128, rest: v128, next: f32): v128 {
  return f32x4.add(f32x4.mul(series, rest), f32x4.splat(next));
}
