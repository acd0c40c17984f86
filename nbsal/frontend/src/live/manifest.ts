// What Python writes beside a live page: the manifest and the tables of the tokenizer.

export const FORMAT = 1;

export interface Sizes {
  width: number;
  depth: number;
  heads: number;
  inner: number;
  vocabulary: number;
  classes: number;
  epsilon: number;
  /** The most tokens of a text. */
  longest: number;
}

export interface Tensor {
  /** The first byte. */
  at: number;
  shape: number[];
  bits: number;
}

export interface Manifest {
  format: number;
  /** The name of the model, and of the copy. */
  subject: string;
  name: string;
  labels: string[];
  sizes: Sizes;
  tensors: Record<string, Tensor>;
  files: Record<string, { bytes: number; sha256: string }>;
}

const FILES = ["model.bin", "vocabulary.json"];
const ALIGNMENT = 4; // bytes, of any tensor
const NORMS = ["attention_norm", "norm"];

/** Whether a manifest is of a model that can be run: each tensor has the shape that the sizes ask for. */
export function isRunnable({ labels, sizes, tensors, files }: Manifest): boolean {
  try {
    const { epsilon, ...counts } = sizes;
    const bytes = FILES.map((name) => files[name].bytes);
    return (
      Object.values(counts).every((count) => Number.isInteger(count) && count > 0) &&
      Number.isFinite(epsilon) &&
      bytes.every((size) => Number.isSafeInteger(size) && size > 0) &&
      sizes.width % (4 * sizes.heads) === 0 &&
      labels.length === sizes.classes &&
      labels.every((label) => typeof label === "string") &&
      sizes.longest <= tensors.positions.shape[0] &&
      sizes.depth < Object.keys(tensors).length &&
      haveShapes(tensors, shapesOf(sizes, "decoder.weight" in tensors), bytes[0])
    );
  } catch {
    return false; // a part is missing, or of another kind
  }
}

/** The shape of each tensor of a model; 0 stands for any length. */
function shapesOf({ width, depth, inner, vocabulary, classes }: Sizes, decodes: boolean): Record<string, number[]> {
  const linear = (name: string, out: number, into: number) => ({
    [`${name}.weight`]: [out, into],
    [`${name}.bias`]: [out],
  });
  const norm = (name: string) => ({ [`${name}.weight`]: [width], [`${name}.bias`]: [width] });
  const shapes = {
    tokens: [vocabulary, width],
    positions: [0, width],
    types: [0, width],
    ...norm("norm"),
    ...linear("pooler", width, width),
    ...linear("classifier", classes, width),
  };
  if (decodes) {
    const decoder = linear("decoder", vocabulary, width);
    Object.assign(shapes, linear("transform", width, width), norm("transform_norm"), decoder);
  }
  for (let block = 0; block < depth; block++) {
    for (const name of ["query", "key", "value", "attention"])
      Object.assign(shapes, linear(`${block}.${name}`, width, width));
    Object.assign(shapes, linear(`${block}.inner`, inner, width), linear(`${block}.outer`, width, inner));
    for (const name of NORMS) Object.assign(shapes, norm(`${block}.${name}`));
  }
  return shapes;
}

const haveShapes = (tensors: Record<string, Tensor>, shapes: Record<string, number[]>, bytes: number) =>
  Object.keys(tensors).length === Object.keys(shapes).length &&
  Object.entries(shapes).every(([name, shape]) => hasShape(tensors[name], shape) && end(tensors[name]) <= bytes);

const hasShape = ({ at, shape, bits }: Tensor, expected: number[]) =>
  Number.isSafeInteger(at) &&
  at >= 0 &&
  at % ALIGNMENT === 0 &&
  [4, 8, 32].includes(bits) &&
  shape.length === expected.length &&
  shape.every((length, i) => Number.isInteger(length) && length > 0 && length === (expected[i] || length));

/** The byte after the numbers of a tensor. */
const end = ({ at, shape, bits }: Tensor) => at + (shape.reduce((product, length) => product * length, 1) * bits) / 8;

/** Of a WordPiece tokenizer; ranges of characters are [first, count, first, count, ...]. */
export interface Tables {
  vocabulary: string[];
  /** Of tokens that continue a word. */
  prefix: string;
  unknown: number;
  longest_word: number;
  /** Texts that are a token of their own. */
  added: Record<string, number>;
  /** Tokens that stand for structure. */
  special: number[];
  first: number;
  separator: number;
  removed: number[];
  spaces: number[];
  /** Characters that are words of their own. */
  separate: number[];
  /** Combining marks that may change places with others. */
  moving: number[];
  changed: string;
  into: string[];
}
