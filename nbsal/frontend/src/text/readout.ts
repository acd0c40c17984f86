// The line under a text: the word under the pointer or the selected words, with their score.

import { h } from "../page/dom";
import { formatPercent, formatScore, plural } from "../page/format";

const HINT = "Point at a word to see its score.";
/** A word, or a token with what its word has before and after it. */
export interface Named {
  text: string;
  before: string;
  after: string;
  word: string;
}

/** A token is named within its word, as un\u00b7ted. */
export const nameNodes = ({ text, before, after }: Omit<Named, "word">): (Node | string)[] => [
  before && h("span", { class: "nbsal-quiet" }, `${before}\u00b7`),
  text,
  after && h("span", { class: "nbsal-quiet" }, `\u00b7${after}`),
];

/** Share of the strongest word's score below which a score counts as 0. */
export const UNSCORED = 0.0005;

export interface RankedWord extends Named {
  score: number;
  /** Of the text. */
  part: number;
  rank: number;
  /** The first of its tokens. */
  token: number;
}

interface Surroundings {
  /** The largest absolute score. */
  largest: number;
  /** The number of words. */
  count: number;
  /** The tokens of a single word. */
  pieces: number[];
}

export type Readout = ReturnType<typeof readoutLine>;

/** What is said of a word after its name; it is out of sight while a new result is computed, and while a preview is shown. */
export const scoreWords = (text: string) => h("span", { class: "nbsal-score" }, text);

/** @param hint what the line says while nothing is pointed at */
export function readoutLine(hint = HINT) {
  const node = h("div", { class: "nbsal-readout nbsal-small nbsal-line", "aria-live": "polite" }, hint);
  let rest: (Node | string)[] = [hint];
  let resting = true;
  return {
    node,
    draw(words: RankedWord[], surroundings: Surroundings) {
      resting = !words.length;
      node.replaceChildren(...(resting ? rest : describe(words, surroundings)));
    },
    /** Change what the line says while nothing is pointed at. */
    setHint(next: (Node | string)[]) {
      rest = next;
      if (resting) node.replaceChildren(...rest);
    },
  };
}

function describe(words: RankedWord[], { largest, count, pieces }: Surroundings): (Node | string)[] {
  const [first] = words;
  const sum = sumOf(words);
  const name = nameOf(words);
  if (words.length > 1) return [name, `, ${countOf(words)}`, scoreWords(` \u00b7 together ${percentOf(sum, largest)}`)];
  if (Math.abs(sum) <= UNSCORED * largest) return [name, scoreWords(" \u00b7 score 0")];
  const rank = `rank ${first.rank} of ${count}`;
  return [name, scoreWords(` \u00b7 ${sideOf(sum, largest)} \u00b7 ${rank} \u00b7 ${scoreOf(sum, largest, pieces)}`)];
}

/** A word, or the first and the last of several. */
export const nameOf = (words: RankedWord[]) =>
  h("b", {}, ...(words.length > 1 ? [`${words[0].word} \u2026 ${words[words.length - 1].word}`] : nameNodes(words[0])));

export const sumOf = (words: RankedWord[]) => words.reduce((total, { score }) => total + score, 0);

export const countOf = (words: RankedWord[]) => plural(words.length, "word");

/** The size of a score as a share of the largest. */
export const percentOf = (score: number, largest: number) => formatPercent(Math.abs(score) / (largest || 1), 0);

/** The side of a score and its share of the largest; a score that counts as 0 has no side. */
export const sideOf = (score: number, largest: number) =>
  Math.abs(score) <= UNSCORED * largest
    ? percentOf(0, largest)
    : `${score < 0 ? "against" : "for"}, ${percentOf(score, largest)}`;

/** A score, and the number of tokens of a word of several. */
export const scoreOf = (score: number, largest: number, pieces: number[]) =>
  `score ${formatScore(score, largest)}${pieces.length > 1 ? ` \u00b7 ${plural(pieces.length, "token")}` : ""}`;
