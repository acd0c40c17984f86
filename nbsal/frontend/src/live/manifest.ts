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
