// The line under a text: the word under the pointer or the selected words, with their weight.

import { h, sanitize } from "./dom";
import { formatPercent, formatScore, plural } from "./format";
import type { Weighed } from "./headline";

const HINT = "Point at a word to see its weight.";
const UNWEIGHED = 0.0005; // share of the strongest below which a word has no weight

export interface RankedWord extends Weighed {
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
    /** Say something else. */
    say(text: string) {
      node.textContent = sanitize(text);
    },
  };
}

function describe(words: RankedWord[], { largest, count, pieces }: Surroundings): (Node | string)[] {
  const [first, last] = [words[0], words[words.length - 1]];
  const sum = words.reduce((total, { score }) => total + score, 0);
  const share = formatPercent(Math.abs(sum) / (largest || 1), 0);
  const name = h("b", {}, words.length > 1 ? `${first.text} \u2026 ${last.text}` : first.text);
  if (words.length > 1) return [name, `, ${plural(words.length, "word")} \u00b7 together ${share} of the strongest`];
  if (Math.abs(first.score) <= UNWEIGHED * largest) return [name, " \u00b7 no weight"];
  const tokens = pieces.length > 1 ? ` \u00b7 ${plural(pieces.length, "token")}` : "";
  const side = first.score < 0 ? "against" : "for";
  const rank = `rank ${first.rank} of ${count}`;
  return [
    name,
    ` \u00b7 ${side}, ${share} of the strongest \u00b7 ${rank} \u00b7 score ${formatScore(first.score)}${tokens}`,
  ];
}
