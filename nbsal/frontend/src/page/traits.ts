// Synced traits of each view, exactly as its Python class in `nbsal/widgets` declares them.

import type { Axes, Line } from "../charts/chart-geometry";
import type { WiredTokens } from "./decode";
import type { AttentionMap, Head, HeadEffect, HeadGrid, Kind } from "./head-traits";

/** The same keys without values: how a type is told apart from one that has them. */
type Absent<T> = { [K in keyof T]?: undefined };
/** A dictionary that Python leaves empty until there is a result. */
export type OrEmpty<T> = T | Absent<T>;

/** A text, or a pair of texts. */
export type Text = string | [string, string];
/** A piece of a sentence; the words for and against the target are marked like the text. */
export type Phrase = ["text" | "class" | "for" | "against" | "word" | "struck", string];
export type Level = "token" | "word";
export type Scale = "own" | "shared";
export type Status = "ready" | "computing" | "cancelling" | "cancelled" | "error";
/** A class, a token, a span, a position with its label, a contrast of two classes; null is the prediction. */
export type Target = string | number | (string | number | null)[] | { contrast: (string | number)[] } | null;
/** A method that may be chosen. */
export interface MethodChoice {
  /** In code. */
  name: string;
  /** On screen. */
  label: string;
  /** What it shows, in a sentence. */
  summary: string;
  paper: string;
  /** For a text of typical length. */
  cost: string;
  /** Whether its scores have both signs. */
  signed: boolean;
  /** Whether it explains one layer, and decodes it through the LM head. */
  layered: boolean;
  decodes: boolean;
  group: "recommended" | "more" | "published";
  /** Why it cannot explain this model, or "". */
  unavailable: string;
}
export type Game = "hiding" | "revealing";
/** Each class with its probability. */
export type Probabilities = [string, number][];

/** What the user may choose from. */
export interface Choices {
  /** The name of the list of methods; "" if there is none. */
  methods: string;
  /** The chosen method. */
  method: MethodChoice | null;
  /** A recommended method that explains one layer. */
  layered: Pick<MethodChoice, "name" | "label"> | null;
  /** The method that hides one word after the other. */
  hiding: Pick<MethodChoice, "name" | "label"> | null;
  labels: string[];
  depth: number;
  task: string;
}

/** What the model decided and which part of it is explained. */
export interface Decision {
  caption: string;
  prediction: string;
  target: string;
  /** How labels read on screen, of those that are written otherwise in code. */
  names: Record<string, string>;
  method: string;
  layer: number | number[] | string | null;
  probabilities: Probabilities;
  /** The same as percentages. */
  percentages: string[];
  /** The probability of the prediction, also of a span; values have none. */
  confidence: number | null;
  /** First and last token of an answer span. */
  answer: [number, number] | null;
  /** Of each row of scores. */
  legends: Legend[];
  notes: string[];
  /** All settings, for a tooltip. */
  settings: string;
  /** Whether they speak for and against it. */
  signed: boolean;
  /** What the scores measure. */
  unit: string;
}

/** How a row of scores divides between words and special tokens. */
export interface Shares {
  /** The share of all absolute scores that lies on special tokens. */
  special: number;
  /** How much is on words, and on special tokens. */
  shares: string[];
  /** The special tokens with their scores. */
  tokens: string;
  /** "" unless most is on special tokens. */
  warning: string;
}

/** What stands beside a row of scores. */
export interface Legend extends Shares {
  /** The strongest word, and its score. */
  strongest: Record<Level, string[]>;
  ranked: Record<Level, RankedList>;
}

/** The strongest words, and the power of ten of their numbers; of parts that are scored as one, another heading. */
export interface RankedList {
  heading?: string;
  power: string;
  rows: RankedRow[];
}

export interface RankedRow {
  /** A token stands between what its word has before and after it. */
  name: string[];
  /** How often it is there, and in which text of a pair. */
  aside: string;
  number: string;
  /** Of the length of the longest bar. */
  share: number;
  tokens: number[];
}

/** What is said of a result: how sure that is, the line below the sentence, and what was measured. */
export interface Statement {
  sentence: Phrase[];
  state: "unchecked" | "supported" | "weak" | "contradicted";
  badge: string; // how far it was checked, in a word or two
  evidence_line: string;
  /** What was hidden, the value then, and the probability if it is one. */
  effects: readonly [string, string, number | null][];
  /** What may tell more: another method, or a search for words that turn the decision. */
  advice: "" | "rescue" | "search";
  /** The tokens of each word that was hidden alone, and the value then. */
  alone: readonly [number[], Phrase][];
}

/** A check that runs, is offered, or failed, in words too; a search runs without a number of passes. */
export interface Checking {
  state: "waiting" | "checking" | "offered" | "failed";
  passes?: number;
  note: string;
}

export interface ViewTraits {
  /** Token positions. */
  selection: number[];
  /** The token under the pointer. */
  hover: number | null;
  status: Status;
  error: string;
  progress: number | null;
  /** The progress in words, and the seconds that are left. */
  _left: string;
  /** Whether Python answers; false in a saved page. */
  _live: boolean;
  /** When a page without Python was saved, and how to change it. */
  _saved: string;
  /** Counts results: a view redraws when it changes. */
  _rev: number;
  _result: { notes?: string[]; settings?: string; signed?: boolean };
  /** Of views that explain a text. */
  text?: Text;
  /** The values of the controls for which the result is. */
  _inputs: Record<string, unknown>;
  /** Whether the result is that of a quicker method, until the chosen one is ready. */
  _preview: boolean;
  /** That there is a result, and how long it took. */
  _seconds: string;
  /** The steps from here: name, words, and whether a file of texts is needed. */
  _next: [string, string, boolean][];
  _below: string | null; // the view that was opened below, as "IPY_MODEL_" and its name
}

/** What is said of words under a text; gaps {} stand for shares in percent, numbers and names. */
export interface ReadoutWords {
  hint: string;
  /** Of a score against, one that counts as 0, and one for. */
  sides: string[];
  zero: string;
  rank: string;
  score: string;
  words: string;
  tokens: string;
  together: string;
}

/** Traits of a view that shows the scores of one text. */
export interface ExplanationTraits extends ViewTraits {
  _readout: ReadoutWords;
  _tokens: OrEmpty<WiredTokens>;
  _scores: DataView;
  _result: Partial<Decision>;
}

/** Traits of a view bound to an explainer. */
export interface ExplainerTraits extends ExplanationTraits {
  text: Text;
  method: string;
  layer: number | null;
  target: Target;
  tau: number | null;
  _choices: Choices;
  /** Of each row of scores. */
  _statements: Statement[];
  _checking: OrEmpty<Checking>;
}

export interface ShadedTraits extends ExplainerTraits {
  level: Level;
  signed: boolean;
  gamma: number;
  clip: number;
}

export type HighlightTraits = ShadedTraits;

/** What is said of every layer: of its cells, by word and by token, and why a row is blank. */
export interface LayerWords {
  finding: Phrase[];
  rows: string[];
  scales: Record<Scale, string>;
  levels: Record<Level, { of: string; remarks: string[]; cells: string[][] }>;
}

export interface LayersTraits extends ShadedTraits {
  scale: Scale;
  _layer_words: LayerWords;
}

export interface CompareTraits extends ShadedTraits {
  other_method: string;
  other_layer: number | null;
  other_target: Target;
  other_tau: number | null;
  scale: Scale;
  /** Whether the difference is shown too. */
  difference: boolean;
  _findings: OrEmpty<Record<Level, ComparedFindings>>;
  /** What the ring and the disc are. */
  _key: string;
  _other_choices: Choices;
  _other: OrEmpty<Decision>;
  _result: Partial<Decision & { same_model: boolean }>;
}

/** What is said of two explanations. */
export interface ComparedFindings {
  heading: string;
  /** The score of the strongest word of each. */
  maxima: string;
  /** What 100 % is. */
  units: Record<Scale, string>;
  statements: Record<Scale, Statement>;
  rows: Record<Scale, ComparedRow[]>;
}

/** A word of the list: its part of a pair, its first token, and the shares of A and B as numbers and in words. */
export interface ComparedRow {
  name: string;
  part: string;
  token: number;
  shares: number[];
  texts: string[];
}

export interface HeadsTraits extends ShadedTraits {
  kind: Kind;
  synt: number;
  pos: number;
  /** Heads that are switched by hand. */
  toggled: Head[];
  /** The head whose attention is shown. */
  head: Head | null;
  _heads: OrEmpty<HeadGrid>;
  _effect: OrEmpty<HeadEffect>;
  /** Or why there is none. */
  _attention: AttentionMap | (Absent<Omit<AttentionMap, "why">> & { why?: string });
  /** What the selected words attend to. */
  _attended: OrEmpty<{ selection: number[]; heading: string }>;
}

/** Curves of both games. */
interface Curves {
  lines: Record<Game, Line[]>;
  axes: Record<Game, Axes>;
  /** What the curves say, as a heading, and how to judge them. */
  findings: Record<Game, string>;
  footnotes: Record<Game, string>;
  /** Each step in a few words. */
  tags: Record<Game, string[]>;
  /** What the curves measure. */
  quantity: string;
  /** What bands show. */
  band: string;
  /** Whether above half one class is predicted and below half the other. */
  halved: boolean;
}

/** Curves over many texts, and their values at each step. */
interface CorpusGames extends Curves, Absent<Omit<PlayedGames, keyof Curves | "answers">> {
  answers: Record<Game, string[]>;
}

/** Both games on one text, step by step. */
export interface PlayedGames extends Curves {
  answers?: undefined;
  /** The number of words at each step. */
  points: number[];
  /** The tokens of each word, the most important word first. */
  order: number[][];
  /** The words before and after each step, each after what is said of it. */
  hints: Record<Game, string[][]>;
  /** The start of the row of each class, and its end at each step; none where the output is no probability. */
  changes: Record<Game, { classes: [string, number][]; steps: [number, string, string][][] }>;
  /** What is said at each step; null where the text is whole. */
  sentences: Record<Game, (Phrase[] | null)[]>;
}

export interface GamesTraits extends ShadedTraits {
  game: Game;
  at: number;
  _game: PlayedGames | CorpusGames | Absent<PlayedGames>;
}

export type PanelName = "layers" | "games" | "heads" | "curve" | "citations";

export interface WorkbenchTraits extends HeadsTraits, GamesTraits {
  /** The panels that are open. */
  panels: PanelName[];
  /** Panels that are scrolled out of sight. */
  _unseen: PanelName[];
  scale: Scale;
  _layer_words: LayerWords;
  _layers: { scores?: DataView; why?: string; statements?: Statement[]; notes?: string[]; legends?: Legend[] };
  /** Why there are no games, or "". */
  _no_games: string;
}
