// What Python says of attention heads: the grid, the effect of those that are off, and the attention of one.

/** A class, its probabilities before some change and now, and both as percentages; "" without a change. */
export type Change = [string, number, number, string, string];
/** Block and head. */
export type Head = [number, number];
/** Which heads are on together. */
export type Kind = "both" | "syntactic" | "positional" | "none" | "all";

export type HeadKind = "syntactic" | "positional" | "both" | "unnamed" | "none";

/** Every head as [block][head]. */
export interface HeadGrid {
  kinds: HeadKind[][];
  /** What a cell says, in full and short; nothing for a head without a name. */
  words: string[][][];
  about: string[][];
  /** What a head is known for, in a few words. */
  habits: string[][];
  /** Of blocks, and of the heads of each. */
  names: [string[], string[]];
  /** Of each choice of heads, and of the button that makes one. */
  labels: Record<Kind | "only", string>;
  /** Which heads are on, once some are switched by hand. */
  toggled: string;
  /** How many heads are on. */
  count: string;
  /** Each percentage from 0 to 100 in words, if there are thresholds. */
  thresholds: string[];
  /** Why a saved page has no map of another head. */
  saved: string;
  /** 1 for a head that is on before any is toggled. */
  on: number[][];
  /** How many heads follow something, as a heading. */
  finding: string;
  studied: boolean;
  /** Whether any head follows something. */
  named: boolean;
}

/** The decision without the heads that are off, and without the chosen head alone. */
export interface HeadEffect {
  /** None where it is not known. */
  changes: Change[];
  head: Head | null;
  alone: string;
}

export interface AttentionMap {
  head: Head;
  size: number;
  /** The largest weight: what byte 255 stands for. */
  top: number;
  /** A byte for each [query, key]. */
  map: DataView;
  /** What the head is known for, and what it attends to in this text. */
  heading: string;
  /** Each percentage from 0 to 100 in words. */
  percentages: string[];
  why?: undefined;
}
