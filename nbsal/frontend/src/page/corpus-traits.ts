// Synced traits of the views of many texts, exactly as their Python classes in `nbsal/widgets` declare them.

import type { Pieces } from "../text/excerpt";
import type { ExplanationTraits, Level, OrEmpty, Phrase, Statement } from "./traits";

export interface Word {
  word: string;
  /** Its size as a share of the largest. */
  share: number;
  /** Whether hiding it changes decisions, or none, or whether it was not hidden. */
  state: "changes" | "idle" | "ranked";
  /** What is known of it, after its name. */
  line: string;
  /** Its share, its texts, and what hiding it changes. */
  cells: [string, string, string];
  /** Whether other classes have it. */
  shared: boolean;
}

export interface Cloud {
  label: string;
  /** The number of its hue; classes beyond the first four have none. */
  hue: number | null;
  /** How many texts it is predicted for. */
  note: string;
  /** What is said where there are no words. */
  empty: string;
  words: Word[];
}

export interface CloudSummary {
  overlap: string;
  hint: string;
  /** What can be done where Python answers. */
  choose: string;
  explained: number;
  total: number;
}

export interface CloudsTraits extends CorpusTraits {
  k: number;
  unit: Level;
  form: "cloud" | "list";
  /** Class and word. */
  picked: string[] | null;
  /** Whether the clouds came without texts. */
  _plain: boolean;
  _clouds: Cloud[];
  _summary: OrEmpty<CloudSummary>;
}

export type Column = "number" | "text" | "prediction" | "confidence" | "label" | "top";

/** A text that waits to be explained has a number and pieces only. */
export interface TableRow {
  number: number;
  prediction?: string;
  /** The prediction as the table names it. */
  name?: string;
  /** The probability; values and spans have none. */
  share?: string;
  label?: string | null;
  wrong?: boolean;
  /** The strongest word. */
  top?: string;
  /** Whether that word speaks against what is explained. */
  against?: boolean;
  pieces: Pieces;
  /** "corrected", "broken" or "", and what is said of the text. */
  remark?: [string, string] | null;
}

/** One page of the table. */
export interface TablePage {
  rows: TableRow[];
  /** Classes to filter by. */
  labels: string[];
  /** Whether the true labels are known. */
  judged: boolean;
  page: number;
  pages: number;
  position: string;
  /** What a saved page says of the others. */
  elsewhere: string;
  /** What is said where no text is listed, where none is opened, and while rows keep an older order. */
  hints: Record<"empty" | "closed" | "keys" | "order", string>;
  /** Of the texts of what is chosen in a panel. */
  heading: Phrase[];
  sentence: Phrase[];
  /** Texts with the class and the word that are filtered by, and how many of them are misclassified. */
  counts: [number, number];
  explained: number;
  total: number;
  opened: { number: number; statement: Statement } | null;
}

/** The number of texts of a label and a prediction. */
export interface ConfusionCell {
  pair: [string, string];
  text: string;
  wrong: boolean;
  /** Of the largest number. */
  share: number;
  /** What is heard of it. */
  name: string;
}

export interface Confusion {
  heading: string;
  note: string;
  /** The predictions of a table; a list has none. */
  columns: string[];
  cells: ConfusionCell[];
}

/** Of every view of many texts. */
export interface CorpusTraits extends ExplanationTraits {
  level: Level;
  signed: boolean;
  gamma: number;
  clip: number;
  sort: Column;
  descending: boolean;
  label: string | null;
  wrong: boolean;
  token: string;
  cell: string[] | null;
  page: number;
  opened: number | null;
  _headline: Phrase[];
  _confusion: OrEmpty<Confusion>;
  _table: OrEmpty<TablePage>;
}

/** A word that was hidden: a cell of each column after the first, and what it is sorted by. */
export interface TestedWord {
  word: string;
  /** The word as the table shows it: punctuation has a name. */
  name: string;
  /** What its tests say after a sign, as "\u25c6 misleads the model beyond chance"; "" if they say nothing. */
  kind: string;
  /** Words, or the lengths of a bar for each model. */
  cells: (string | { left?: number[]; right?: number[] })[];
  values: (string | number | null)[];
  /** All that was measured. */
  line: string;
}

export interface TestedWords {
  heading: string;
  note: string;
  tip: string;
  columns: string[];
  rows: TestedWord[];
  /** The words whose hiding changes nothing, in a sentence. */
  rest: string;
  hint: string;
  /** What the press says that hides the picked words in every text; "" if there is none. */
  hide: string;
  /** Whether other words can be tried. */
  tries: boolean;
}

/** The error rate, the ends of its interval, and the rate elsewhere, as shares of the longest bar. */
export interface Slice {
  name: string;
  bar: [number, number, number, number];
  mark: string;
  rate: string;
  text: string;
}

export interface AuditTraits extends CorpusTraits {
  picked: string[] | null;
  everywhere: boolean;
  part: string | null;
  least: number;
  _words: OrEmpty<TestedWords>;
  _slices: OrEmpty<{ heading: string; note: string; rows: Slice[] }>;
}
