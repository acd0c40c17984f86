// A step of a game in words: what the model decides without the hidden words, or with those that are revealed. The same
// as in Python.

import { formatPercent, formatScore, plural } from "./format";
import { confidence, type Phrase } from "./headline";
import type { Game } from "./traits";

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
const ORDINALS = ["", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
const ordinal = (n: number) => ORDINALS[n] ?? `${n}${suffix(n)}`;
const suffix = (n: number) => (n % 100 > 10 && n % 100 < 14 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th"));

/** The index of the most probable label. */
export const decided = (outcome: number[]) => outcome.indexOf(Math.max(...outcome));

/** The headline at a step. */
export function stepPhrases(steps: Steps, position: number): Phrase[] {
  return steps.probable ? decisionPhrases(steps, position) : outputPhrases(steps, position);
}

function decisionPhrases(steps: Steps, position: number): Phrase[] {
  const { game, labels, outcomes } = steps;
  const whole = game === "hiding" ? 0 : outcomes.length - 1;
  const [now, before] = [decided(outcomes[position]), decided(outcomes[whole])];
  const changed = outcomes.slice(0, position).some((outcome) => decided(outcome) !== now);
  const compared = now === before && game === "hiding" && position > 0;
  const state = compared ? (changed ? ["", " again"] : ["still ", ""]) : ["", ""];
  const reference = `${now === before ? "" : `${labels[before]}, `}${confidence(outcomes[whole][before])}`;
  const bare = position === outcomes.length - 1 - whole && position !== whole;
  const phrases: Phrase[] = [
    ["text", `${opening(steps, position)}: ${state[0]}`],
    ["class", labels[now]],
    ["text", `${state[1]}, ${confidence(outcomes[position][now])}${bare ? ", as for an empty text" : ""}`],
  ];
  if (position !== whole)
    phrases.push(["text", game === "hiding" ? ` \u2014 it was ${reference}` : ` \u2014 with all words ${reference}`]);
  phrases.push(["text", `.${bare ? "" : turning(steps, position)}`]);
  return phrases.filter(([, text]) => text);
}

function outputPhrases(steps: Steps, position: number): Phrase[] {
  const { game, labels, outcomes } = steps;
  const whole = game === "hiding" ? 0 : outcomes.length - 1;
  const reference = formatScore(outcomes[whole][0]);
  return [
    ["text", `${opening(steps, position)}: the output for `],
    ["class", labels[0]],
    ["text", ` is ${formatScore(outcomes[position][0])}`],
    [
      "text",
      position === whole ? "." : game === "hiding" ? `; it was ${reference}.` : `; with all words ${reference}.`,
    ],
  ];
}

/** "After hiding 4 words" */
function opening({ game, points }: Steps, position: number) {
  const [count, total] = [points[position], points[points.length - 1]];
  const words = plural(count, "word");
  if (!count) return game === "hiding" ? "The whole text" : "Without any word";
  if (count === total && count > 1) return `With all ${words}${game === "hiding" ? " hidden" : ""}`;
  return `After ${game} ${words}`;
}

/** "The third word turned it.", of the last change up to a step. */
function turning({ points, outcomes }: Steps, position: number) {
  const decisions = outcomes.slice(0, position + 1).map(decided);
  const change = decisions.findLastIndex((label, i) => i > 0 && label !== decisions[i - 1]);
  if (change < 0) return "";
  const [first, last] = [points[change - 1] + 1, points[change]];
  return first === last ? ` The ${ordinal(last)} word turned it.` : ` Words ${first} to ${last} turned it.`;
}

/** The step on the curve in a few words: "4 words hidden: positive 7.2 %". */
export function stepTag({ game, points, probable }: Steps, position: number, label: string, value: number) {
  const amount = probable ? formatPercent(value) : formatScore(value);
  return `${plural(points[position], "word")} ${VERBS[game]}: ${label} ${amount}`;
}
