// The random words that Python draws for a text: BLAKE2b of its tokens seeds numpy's PCG64, which shuffles.

const SIZE = 16; // bytes of a digest
const BLOCK = 128; // bytes that are digested at once
const ROUNDS = 12;
const MASK = (1n << 64n) - 1n;
const START = [
  0x6a09e667f3bcc908n,
  0xbb67ae8584caa73bn,
  0x3c6ef372fe94f82bn,
  0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n,
  0x9b05688c2b3e6c1fn,
  0x1f83d9abfb41bd6bn,
  0x5be0cd19137e2179n,
];
/** In which order each round takes the words of a block. */
const ORDERS = [
  "0123456789abcdef",
  "ea489fd61c02b753",
  "b8c052fdae367194",
  "7931dcbe265a40f8",
  "905724afe1bc683d",
  "2c6a0b834d75fe19",
  "c51fed4a0763928b",
  "db7ec13950f4862a",
  "6fe9b308c2d714a5",
  "a2847615fb9e3cd0",
].map((digits) => Array.from(digits, (digit) => Number.parseInt(digit, 16)));
const STEP = 0x2360ed051fc65da44385df649fccf645n; // of PCG64
const WIDE = (1n << 128n) - 1n;

/** A function that shuffles numbers as Python does for a row of tokens, anew with each call. */
export function shuffler(ids: number[], types: number[]) {
  const tuple = (values: unknown[]) => `(${values.join(", ")})`;
  const row = tuple([0, tuple(ids), tuple(types), tuple(ids.map(() => 1))]);
  const next = generator(digest(new TextEncoder().encode(row)));
  return (numbers: number[]): number[] => {
    const shuffled = [...numbers];
    for (let i = shuffled.length - 1; i > 0; i--) {
      const j = upTo(i, next);
      [shuffled[i], shuffled[j]] = [shuffled[j], shuffled[i]];
    }
    return shuffled;
  };
}

/** A number up to a limit, each with the same probability. */
function upTo(limit: number, next: () => number): number {
  const mask = 2 ** (32 - Math.clz32(limit)) - 1;
  for (;;) {
    const number = next() & mask;
    if (number <= limit) return number;
  }
}

/** The 32-bit words of a digest, the last four bytes first. */
function digest(bytes: Uint8Array): number[] {
  const state = [...START];
  state[0] ^= 0x01010000n ^ BigInt(SIZE);
  for (let at = 0; at < bytes.length; at += BLOCK) {
    const block = new DataView(new ArrayBuffer(BLOCK));
    new Uint8Array(block.buffer).set(bytes.subarray(at, at + BLOCK));
    const words = Array.from({ length: 16 }, (_, i) => block.getBigUint64(8 * i, true));
    const end = Math.min(at + BLOCK, bytes.length);
    const mixed = mix([...state, ...START], words, BigInt(end), end === bytes.length);
    for (let i = 0; i < 8; i++) state[i] ^= mixed[i] ^ mixed[i + 8];
  }
  const view = new DataView(new ArrayBuffer(SIZE));
  for (const i of [0, 1]) view.setBigUint64(8 * i, state[i], true);
  return [12, 8, 4, 0].map((at) => view.getUint32(at));
}

function mix(v: bigint[], words: bigint[], count: bigint, isLast: boolean): bigint[] {
  v[12] ^= count;
  if (isLast) v[14] ^= MASK;
  const turn = (i: number, j: number, bits: bigint) => {
    const x = v[i] ^ v[j];
    v[i] = ((x >> bits) | (x << (64n - bits))) & MASK;
  };
  const quarter = (a: number, b: number, c: number, d: number, x: bigint, y: bigint) => {
    v[a] = (v[a] + v[b] + x) & MASK;
    turn(d, a, 32n);
    v[c] = (v[c] + v[d]) & MASK;
    turn(b, c, 24n);
    v[a] = (v[a] + v[b] + y) & MASK;
    turn(d, a, 16n);
    v[c] = (v[c] + v[d]) & MASK;
    turn(b, c, 63n);
  };
  for (let round = 0; round < ROUNDS; round++) {
    const order = ORDERS[round % ORDERS.length];
    for (let i = 0; i < 8; i++) {
      const skew = i < 4 ? 0 : 1; // columns, then diagonals
      const [a, b, c, d] = [0, 1, 2, 3].map((row) => 4 * row + ((i + skew * row) % 4));
      quarter(a, b, c, d, words[order[2 * i]], words[order[2 * i + 1]]);
    }
  }
  return v;
}

/** Random 32-bit numbers from a seed of as many: numpy's SeedSequence and PCG64. */
function generator(seed: number[]): () => number {
  const [high, low, highStep, lowStep] = seedWords(seed);
  const step = (((highStep << 64n) | lowStep) << 1n) | 1n;
  let state = step;
  const advance = () => {
    state = (state * STEP + step) & WIDE;
  };
  state = (state + ((high << 64n) | low)) & WIDE;
  advance();
  let rest: number | null = null;
  return () => {
    if (rest !== null) {
      const number = rest;
      rest = null;
      return number;
    }
    advance();
    const [folded, turns] = [(state >> 64n) ^ (state & MASK), state >> 122n];
    const output = ((folded >> turns) | (folded << (64n - turns))) & MASK;
    rest = Number(output >> 32n);
    return Number(output & 0xffffffffn);
  };
}

/** Four 64-bit words from a seed. */
function seedWords(seed: number[]): bigint[] {
  const hasher = (constant: number, factor: number) => (value: number) => {
    const mixed = value ^ constant;
    constant = Math.imul(constant, factor);
    const product = Math.imul(mixed, constant);
    return (product ^ (product >>> 16)) >>> 0;
  };
  const hash = hasher(0x43b0d7e5, 0x931e8875);
  const pool = seed.map(hash);
  for (const from of pool.keys()) {
    for (const to of pool.keys()) {
      if (from === to) continue;
      const sum = Math.imul(0xca01f9dd, pool[to]) - Math.imul(0x4973f715, hash(pool[from]));
      pool[to] = (sum ^ (sum >>> 16)) >>> 0;
    }
  }
  const output = hasher(0x8b51f9dd, 0x58f38ded);
  const halves = Array.from({ length: 8 }, (_, i) => BigInt(output(pool[i % 4])));
  return [0, 2, 4, 6].map((i) => halves[i] | (halves[i + 1] << 32n));
}
