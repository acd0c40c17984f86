// Synced traits of the Answers view, exactly as its Python class in `nbsal/widgets/answers.py` declares them.

import type { Axes, Line } from "../charts/chart-geometry";
import type { WiredTokens } from "./decode";
import type { Choices, Level, OrEmpty, PanelName, Phrase, ReadoutWords, Shares, ViewTraits } from "./traits";

/** The part of the sources and of the reply that is shaded as one. */
export type AnswerLevel = Level | "sentence" | "document";

/** A source of an answer, as its card, its column and sentences name it. */
export interface SourceCard {
  label: string;
  short: string;
  name: string;
  title: string;
  status: "read" | "rewritten" | "not read" | "struck out";
  /** The first token of each sentence. */
  sentences: number[];
  /** Which word of the reply falls most without it. */
  headline: Phrase[];
}

/** What Python says of some tokens of the reply. */
export interface AnswerPart {
  tokens: number[];
  rival?: string;
  headline: Phrase[];
  /** Whether it depends on any source, as far as that was measured. */
  matters: boolean;
  /** Of each source and of the reply so far, in words; and what stands beside the scores. */
  shares: string[];
  legend: Shares;
  /** What leaving out each source that is read changes, as probabilities ("" if little), and as their logarithms. */
  changes: [string, string][];
  /** What is left of it without what is struck out. */
  struck: Phrase[];
  /** If scores are followed: how much came through the reply, and by hop, the words that carried it. */
  through?: OrEmpty<{ lead: string; then: string; hops: [number[], string, string][][] }>;
  /** The token that has rivals. */
  at: number | null;
}

/** What the model says of its reply. */
export interface ReplyFacts {
  /** The position of its first token. */
  start: number;
  /** Null where a server does not tell. */
  logprobs: (number | null)[];
  /** How likely each token is, and all are, in words. */
  chances: string[];
  likelihood: string;
  /** Other tokens in the place of one: their names, their texts, and their probabilities, if they are known. */
  rivals: Record<number, [string, string, string][]>;
  /** The first token of each sentence, and the tokens and the text of each phrase, by their numbers in the reply. */
  sentences: number[];
  phrases: number[][];
  names: string[];
  /** Shares of each source, and last of the reply so far, in each phrase. */
  matrix: number[][];
  /** The same in words: in a cell, and where it is pointed at. */
  cells: [string, string][][];
  finding: string;
  unit: string;
  name: string;
  /** The column of the reply so far. */
  so_far: { short: string; name: string };
  /** The likeliest other tokens in the place of each one. */
  next: string[];
  /** Whether scores can be followed through the reply. */
  follows: boolean;
  /** Whether the sum of some rows of scores explains the sum of their tokens. */
  linear: boolean;
  /** Whether parts of sources are hidden as one, which are then words of them. */
  hides_parts: boolean;
  /** The sources that were left out, in the order of `changes`, and the whole reply with its words and sentences. */
  measured: number[];
  parts: AnswerPart[];
}

/** Lines of the hiding curve and the tokens of each step, or why there are none. */
export interface HidingCurve {
  lines?: Line[];
  axes?: Axes;
  order?: number[][];
  finding?: string;
  /** What the curve measures, in a label and in a note. */
  quantity?: string;
  note?: string;
  band?: string;
  /** What is said of each step. */
  tags?: string[];
  why?: string;
}

/** A statement with its citation, or a field of the reply, in words; and what it links. */
export interface SourcedRow {
  verdict: string;
  words: string;
  name: string;
  text: string;
  mark: string;
  reason: string;
  numbers: string;
  /** Tokens of the reply, and positions in the prompt. */
  tokens: number[];
  positions: number[];
  /** Sources, and what each is to it. */
  links: [number, string][];
}

/** What is cited, once it is checked; before that, what the check would take. */
export interface Citations {
  offer?: string;
  finding?: string;
  note?: string;
  statements?: SourcedRow[];
  fields?: SourcedRow[];
}

export interface AnswersTraits extends ViewTraits {
  level: AnswerLevel;
  signed: boolean;
  gamma: number;
  clip: number;
  /** Positions in the prompt; `selection` has numbers of tokens of the reply. */
  source_selection: number[];
  method: string;
  layer: number | null;
  /** How often scores are followed through the reply. */
  hops: number | "all";
  /** Whether words of the reply that the model is unsure of are faint. */
  certainty: boolean;
  /** The token that the one at number `at` is explained against. */
  rival: string | null;
  at: number | null;
  /** Sources, or sentences of them, that are taken out. */
  struck: (number | [number, number])[];
  /** The number of the reply on display. */
  written: number;
  panels: PanelName[];
  _choices: Choices;
  _tokens: OrEmpty<WiredTokens>;
  _scores: DataView;
  _sources: SourceCard[];
  _facts: OrEmpty<ReplyFacts>;
  /** Scores of tokens that are a target of their own, perhaps rather than a rival. */
  _own_scores: OrEmpty<{ tokens: number[]; rival: string; scores: DataView }>;
  /** What is said of the selected tokens, where `parts` do not hold it. */
  _chosen: OrEmpty<AnswerPart>;
  _curve: HidingCurve;
  _citations: Citations;
  /** The reply, while the model writes it. */
  _draft: string;
  _readout: ReadoutWords;
  /** All replies; the text of one that was not written yet is empty. */
  _replies: { title: string; text: string; likelihood: string }[];
}
