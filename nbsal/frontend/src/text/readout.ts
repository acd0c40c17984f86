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
  const node = h("div", { class: "nbsal-readout", "aria-live": "polite" }, hint);
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
  const [first, last] = [words[0], words[words.length - 1]];
  const sum = words.reduce((total, { score }) => total + score, 0);
  const share = formatPercent(Math.abs(sum) / (largest || 1), 0);
  const name = h("b", {}, ...(words.length > 1 ? [`${first.word} \u2026 ${last.word}`] : nameNodes(first)));
  if (words.length > 1) return [name, `, ${plural(words.length, "word")}`, scoreWords(` \u00b7 together ${share}`)];
  if (Math.abs(first.score) <= UNSCORED * largest) return [name, scoreWords(" \u00b7 score 0")];
  const tokens = pieces.length > 1 ? ` \u00b7 ${plural(pieces.length, "token")}` : "";
  const side = first.score < 0 ? "against" : "for";
  const rank = `rank ${first.rank} of ${count}`;
  const score = `score ${formatScore(first.score, largest)}${tokens}`;
  return [name, scoreWords(` \u00b7 ${side}, ${share} \u00b7 ${rank} \u00b7 ${score}`)];
}
