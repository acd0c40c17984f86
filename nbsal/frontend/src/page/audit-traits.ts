// Synced traits of the Audit view, exactly as its Python class in `nbsal/widgets/audit.py` declares them.

import type { OrEmpty, Phrase, ViewTraits } from "./traits";

/** What hiding a word does to the decisions of one model. */
export interface WordEffect {
  /** Decisions that it corrects and breaks; without labels, those that it changes. */
  counts: number[];
  /** The mean change of the class's log-odds, with its interval. */
  pull: number | null;
  low: number | null;
  high: number | null;
  excess: number | null;
}

/** The number of a text, and the class that each model decides without the words. */
export type Decided = number[];

export interface AuditedWord {
  word: string;
  /** The word as the table shows it: punctuation has a name. */
  name: string;
  /** The class it speaks for, or "either class"; "" if that is not clear. */
  label: string;
  texts: number;
  /** Of each model. */
  effects: WordEffect[];
  /** Decisions that hiding a random other word of the same texts changes. */
  random: number;
  p: number | null;
  /** What its tests say after a sign, as "◆ misleads the model beyond chance"; "" if they say nothing. */
  kind: string;
  sentence: Phrase[];
  rows: Decided[];
}

export interface AuditSlice {
  name: string;
  texts: number;
  errors: number;
  rate: number;
  low: number;
  high: number;
  rest: number;
  toward: string;
  excess: number | null;
  p: number | null;
  beyond_chance: boolean;
}

export interface Mistake {
  number: number;
  /** The words behind it, and their places among the words of the text. */
  words: string[];
  places: number[];
  sentence: string;
}

/** A text: of each word the characters before it, its own, its score in thousandths and its number among all names. */
export interface AuditedText {
  label: number | null;
  /** Class and confidence of each model. */
  decisions: [number, number][];
  parts: [string, number[]][];
}

export interface AuditData {
  sentence: Phrase[];
  classes: string[];
  judged: boolean;
  models: string[];
  /** Whether there is a model that can hide several words together. */
  hides: boolean;
  /** The words that were hidden. */
  names: string[];
  words: AuditedWord[];
  slices: AuditSlice[];
  mistakes: Mistake[];
  headings: { words: string; slices: string; mistakes: string };
}

/** What Python adds for the picked words and the opened text. */
interface Choice {
  picked: string[];
  /** How many texts have any of the words. */
  texts: number;
  rows: Decided[];
  /** What hiding the words together does; null if that is not known. */
  sentence: Phrase[] | null;
  more: Record<string, AuditedText>;
  behind: string;
}

export interface AuditTraits extends ViewTraits {
  picked: string[] | null;
  opened: number | null;
  _audit: OrEmpty<AuditData>;
  _texts: Record<string, AuditedText>;
  _choice: OrEmpty<Choice>;
}
