// Synced traits of each view, exactly as its Python class in `nbsal/widgets` declares them.

import type { Line } from "./chart-geometry";
import type { WiredTokens } from "./decode";
import type { Pieces } from "./excerpt";

/** The same keys without values: how a type is told apart from one that has them. */
type Absent<T> = { [K in keyof T]?: undefined };
/** A dictionary that Python leaves empty until there is a result. */
export type OrEmpty<T> = T | Absent<T>;

/** A text, or a pair of texts. */
export type Text = string | [string, string];
export type Level = "token" | "word";
export type Scale = "own" | "shared";
export type Status = "ready" | "computing" | "cancelling" | "cancelled" | "error";
/** A class, a token, a span, a position with its label, a contrast of two classes; null is the prediction. */
export type Target = string | number | (string | number | null)[] | { contrast: (string | number)[] } | null;
/** Name, family, whether it explains one layer, whether it decodes through the LM head. */
export type MethodChoice = [string, string, boolean, boolean];
/** Block and head. */
export type Head = [number, number];
export type Game = "hiding" | "revealing";
/** Each class with its probability. */
export type Probabilities = [string, number][];

/** What the user may choose from. */
export interface Choices {
  methods: MethodChoice[];
  labels: string[];
  depth: number;
  task: string;
}

/** What the model decided and which part of it is explained. */
export interface Decision {
  caption: string;
  prediction: string;
  target: string;
  method: string;
  layer: number | number[] | string | null;
  probabilities: Probabilities;
  /** First and last token of an answer span. */
  answer: [number, number] | null;
  notes: string[];
}

export interface Result extends Decision {
  /** What the largest int16 of each row of scores stands for. */
  scales: number[];
}

export interface ViewTraits {
  /** Token positions. */
  selection: number[];
  /** The token under the pointer. */
  hover: number | null;
  status: Status;
  error: string;
  progress: number | null;
  /** Whether Python answers; false in a saved page. */
  _live: boolean;
  /** Counts results: a view redraws when it changes. */
  _rev: number;
  _result: { notes?: string[] };
}

/** Traits of a view that shows the scores of one text. */
export interface ExplanationTraits extends ViewTraits {
  _tokens: OrEmpty<WiredTokens>;
  _scores: DataView;
  _result: Partial<Result>;
}

/** Traits of a view bound to an explainer. */
export interface ExplainerTraits extends ExplanationTraits {
  text: Text;
  method: string;
  layer: number | null;
  target: Target;
  tau: number | null;
  _choices: Choices;
}

export interface ShadedTraits extends ExplainerTraits {
  level: Level;
  signed: boolean;
  gamma: number;
  clip: number;
}

export type HighlightTraits = ShadedTraits;

export interface LayersTraits extends ShadedTraits {
  scale: Scale;
}

export interface CompareTraits extends ShadedTraits {
  other_method: string;
  other_layer: number | null;
  other_target: Target;
  other_tau: number | null;
  scale: Scale;
  _other_choices: Choices;
  _other: OrEmpty<Decision>;
  _result: Partial<Result & { agreement: string }>;
}

export type HeadKind = "syntactic" | "positional" | "both" | "unnamed" | "none";

/** Every head as [block][head]. */
export interface HeadGrid {
  kinds: HeadKind[][];
  about: string[][];
  /** 1 for a head that is on before any is toggled. */
  on: number[][];
  studied: boolean;
}

export interface AttentionMap {
  head: Head;
  size: number;
  /** The largest weight: what byte 255 stands for. */
  top: number;
  /** A byte for each [query, key]. */
  map: DataView;
}

export interface HeadsTraits extends ShadedTraits {
  kind: "both" | "syntactic" | "positional" | "none";
  synt: number;
  pos: number;
  /** Heads that are switched by hand. */
  toggled: Head[];
  /** The head whose attention is shown. */
  head: Head | null;
  _heads: OrEmpty<HeadGrid>;
  _attention: OrEmpty<AttentionMap>;
}

/** Curves of both games. */
interface Curves {
  lines: Record<Game, Line[]>;
  unit: string;
}

/** Both games on one text, step by step. */
interface PlayedGames extends Curves {
  probable: boolean;
  /** The number of tokens at each step. */
  points: number[];
  /** Tokens, most important first. */
  order: number[];
  labels: string[];
  /** The probability of each label at each step. */
  outcomes: Record<Game, number[][]>;
}

export interface GamesTraits extends ShadedTraits {
  game: Game;
  at: number;
  _game: PlayedGames | (Curves & Absent<Omit<PlayedGames, keyof Curves>>) | Absent<PlayedGames>;
}

export interface WorkbenchTraits extends HeadsTraits, GamesTraits {
  pane: "layers" | "heads" | "games";
  scale: Scale;
  _layers: { scores?: DataView; scales?: number[]; why?: string };
}

export interface Word {
  word: string;
  /** Its weight as a share of the largest. */
  share: number;
  size: number;
  x: number;
  y: number;
  width: number;
  /** Other classes that have it among their first words. */
  also?: string[];
}

export interface Cloud {
  label: string;
  words: Word[];
  size: [number, number];
}

/** A text in which a picked word occurs. */
export interface WordText {
  number: number;
  caption: string;
  pieces: Pieces;
}

export interface CloudsTraits extends ViewTraits {
  k: number;
  unit: Level;
  /** Class and word. */
  picked: string[] | null;
  /** Whether the clouds came without texts. */
  _plain: boolean;
  _clouds: Cloud[];
  _texts_shown: OrEmpty<{ picked: [string, string] | null; count: number; texts: WordText[] }>;
}

export type Column = "number" | "text" | "prediction" | "confidence" | "label" | "top";

export interface TableRow {
  number: number;
  prediction: string;
  /** Values and spans have none. */
  confidence: number | null;
  label: string | null;
  wrong: boolean;
  top: string;
  pieces: Pieces;
}

/** One page of the table. */
export interface TablePage {
  rows: TableRow[];
  /** Predicted classes. */
  labels: string[];
  /** Whether the true labels are known. */
  judged: boolean;
  page: number;
  pages: number;
  count: string;
}

export interface BrowseTraits extends ExplanationTraits {
  sort: Column;
  descending: boolean;
  label: string | null;
  wrong: boolean;
  token: string;
  page: number;
  opened: number | null;
  _table: OrEmpty<TablePage>;
}
