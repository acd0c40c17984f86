// A step of a game in a few words.

import { formatPercent, formatScore, plural } from "../page/format";
import type { Game } from "../page/traits";

/** The outcomes of one game. */
export interface Steps {
  game: Game;
  /** The number of words at each step. */
  points: number[];
  labels: string[];
  /** The probability of each label at each step; of a single label its output. */
  outcomes: number[][];
  /** Whether outcomes are probabilities. */
  probable: boolean;
}

export const VERBS = { hiding: "hidden", revealing: "revealed" };

/** The step on the curve in a few words: "4 words hidden: positive 7.2 %". */
export function stepTag({ game, points, probable }: Steps, position: number, label: string, value: number) {
  const amount = probable ? formatPercent(value) : formatScore(value);
  return `${plural(points[position], "word")} ${VERBS[game]}: ${label} ${amount}`;
}
