// The line under a text: the word under the pointer or the selected words, with their score.

import { h } from "../page/dom";
import type { RankedList, ReadoutWords } from "../page/traits";

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
const UNSCORED = 0.0005;

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

export function readoutLine(words: ReadoutWords) {
  let rest: (Node | string)[] = [words.hint];
  const node = h("div", { class: "nbsal-readout nbsal-small nbsal-line", "aria-live": "polite" }, words.hint);
  let numbers = new Map<string, string>(); // of scores, by tokens
  let resting = true;
  const describe = (named: RankedWord[], { largest, count, pieces }: Surroundings): (Node | string)[] => {
    const name = nameOf(named);
    const sum = sumOf(named);
    const share = shareOf(sum, largest);
    if (named.length > 1)
      return [name, `, ${fill(words.words, named.length)}`, scoreWords(` \u00b7 ${fill(words.together, share)}`)];
    if (isZero(sum, largest)) return [name, scoreWords(` \u00b7 ${words.zero}`)];
    const score = numbers.get(String(pieces));
    const said = [
      sideOf(words, sum, largest),
      fill(words.rank, named[0].rank, count),
      score && fill(words.score, score),
      pieces.length > 1 && fill(words.tokens, pieces.length),
    ];
    return [name, scoreWords(` \u00b7 ${said.filter(Boolean).join(" \u00b7 ")}`)];
  };
  return {
    node,
    draw(named: RankedWord[], surroundings: Surroundings) {
      resting = !named.length;
      node.replaceChildren(...(resting ? rest : describe(named, surroundings)));
    },
    /** Set the scores that are told: those of the strongest words. */
    setScores({ rows, power }: RankedList) {
      numbers = new Map(rows.map(({ tokens, number }) => [String(tokens), `${number} ${power}`.trimEnd()]));
    },
    /** Change what the line says while nothing is pointed at. */
    setHint(next: (Node | string)[]) {
      rest = next;
      if (resting) node.replaceChildren(...rest);
    },
  };
}

/** A text that Python wrote, with values in its gaps. */
export function fill(text: string, ...values: (string | number)[]) {
  return text.replace(/\{\}/g, () => String(values.shift()));
}

/** A word, or the first and the last of several. */
export const nameOf = (words: RankedWord[]) =>
  h("b", {}, ...(words.length > 1 ? [`${words[0].word} \u2026 ${words[words.length - 1].word}`] : nameNodes(words[0])));

export const sumOf = (words: RankedWord[]) => words.reduce((total, { score }) => total + score, 0);

/** The size of a score as a share of the largest, in percent. */
const shareOf = (score: number, largest: number) => Math.round((100 * Math.abs(score)) / (largest || 1));

export const isZero = (score: number, largest: number) => Math.abs(score) <= UNSCORED * largest;

/** The side of a score and its share of the largest, after other values in the same text. */
export const sideOf = ({ sides }: ReadoutWords, score: number, largest: number, ...values: string[]) =>
  fill(sides[isZero(score, largest) ? 1 : 1 + Math.sign(score)], ...values, shareOf(score, largest));
