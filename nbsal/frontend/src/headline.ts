// The headline of an explanation: the decision in one sentence, with the words that decided it. The same as in Python.

import { h } from "./dom";
import { formatPercent } from "./format";

/** A word or token with its score, and its part of the text. */
export interface Weighed {
  text: string;
  score: number;
  part: number;
}

/** The decision with some attention heads switched off; probabilities as in `Outcome`. */
export interface HeadsOff {
  off: number;
  total: number;
  prediction: string;
  probability: number | null;
  targetProbability: number | null;
}

export interface Outcome {
  prediction: string;
  target: string;
  /** Of the prediction and of the target; null where there are none. */
  probability: number | null;
  targetProbability: number | null;
  /** Whether the scores depend on the target. */
  aboutTarget: boolean;
  /** The number of texts: 2 for a pair. */
  parts: number;
  /** The share of the score on special tokens. */
  special: number;
  /** The decision without some heads, with which the sentence compares this one. */
  headsOff?: HeadsOff | null;
}

/** A piece of the sentence; the words for and against the target are marked like the text. */
export type Phrase = ["text" | "class" | "for" | "against" | "struck", string];

/** What the percentage is, and which words are named. */
export const HEADLINE_TITLE =
  "The percentage is the model\u2019s probability. The sentence names at most three words for the class, fewer if they hold " +
  "60 % of the score for it, and at most two against it, whose score is at least 25 % of the strongest word\u2019s.";

const ENOUGH = 0.6; // share of the positive scores that the listed words hold
const MOST_FOR = 3;
const MOST_AGAINST = 2;
const NOTABLE = 0.25; // share of the largest score from which a word against the target is named
const DECISIVE = 0.05; // share of all absolute scores above which a single word counts
const CERTAIN = 0.9995;
const LEANING = 0.6;
const MOST = 0.5; // share of all absolute scores on special tokens above which the sentence is about the words alone
const CLOSE = 0.001; // probabilities that differ by less are told apart by a second digit

const PLACE = / (\[\d+:\d+\]|(at|after) .* \[\d+\])$/s; // where a target is in the text

/** Whether something else than the prediction is explained, at whatever place. */
const isContrary = (outcome: Outcome) => {
  const { prediction, target, aboutTarget } = outcome;
  return aboutTarget && prediction !== target && prediction !== target.replace(PLACE, "") && !isValue(outcome);
};

/** Whether the outputs are values, which have no probabilities; spans have none either, but places. */
const isValue = ({ probability, target }: Outcome) => probability === null && !PLACE.test(target);

export function headline(outcome: Outcome, words: Weighed[]): Phrase[] {
  const contrary = isContrary(outcome);
  const lead = contrary ? question(outcome) : verdict(outcome);
  const turned = outcome.headsOff && outcome.headsOff.prediction !== outcome.prediction;
  const reasons = contrary || turned ? pleas(outcome, words) : causes(outcome, words);
  return reasons.length ? [...lead, ["text", " \u2014 "], ...reasons, ["text", "."]] : [...lead, ["text", "."]];
}

/** "positive, 99.8 %" */
function verdict(outcome: Outcome): Phrase[] {
  const { prediction, probability, headsOff } = outcome;
  if (headsOff) return verdictWithout(outcome, headsOff);
  if (probability === null) return [["class", prediction], ...explainedValue(outcome)];
  const lead: Phrase[] = probability < LEANING ? [["text", "leaning "]] : [];
  return [...lead, ["class", prediction], ["text", `, ${confidence(probability)}`]];
}

/** Which one of several values is explained. */
function explainedValue(outcome: Outcome): Phrase[] {
  const { prediction, target } = outcome;
  const named = target !== prediction && (prediction.includes(`${target} `) || target.includes(" - "));
  return named && isValue(outcome) ? [["text", `, explained: ${target}`]] : [];
}

/** "positive, 99.8 → 97.1 % with 6 of 72 heads off", the first number struck */
function verdictWithout({ prediction, probability }: Outcome, headsOff: HeadsOff): Phrase[] {
  const heads = ` with ${headsOff.off} of ${headsOff.total} heads off`;
  const turned = headsOff.prediction !== prediction;
  if (probability === null || headsOff.probability === null) {
    if (!turned)
      return [
        ["class", prediction],
        ["text", `, also${heads}`],
      ];
    return [
      ["struck", prediction],
      ["text", " \u2192 "],
      ["class", headsOff.prediction],
      ["text", heads],
    ];
  }
  const [before, after] = changeWords(probability, headsOff.probability);
  const lead: Phrase[] = [
    ["class", prediction],
    ["text", ", "],
    ["struck", before],
    ["text", ` \u2192 ${after}${heads}`],
  ];
  return turned ? [...lead, ["text", ": now "], ["class", headsOff.prediction]] : lead;
}

/** "Why not negative? (0.2 %)" */
function question(outcome: Outcome): Phrase[] {
  const target = outcome.target.replaceAll(" - ", " \u2212 "); // of a contrast
  const why = target === outcome.target ? "Why not " : "Why ";
  return [["text", why], ["class", target], ["text", "?"], ...targetShare(outcome)];
}

/** The probability of the explained class, in brackets. */
function targetShare({ targetProbability, headsOff }: Outcome): Phrase[] {
  if (targetProbability === null) return [];
  if (!headsOff || headsOff.targetProbability === null) return [["text", ` (${confidence(targetProbability)})`]];
  const [before, after] = changeWords(targetProbability, headsOff.targetProbability);
  return [
    ["text", " ("],
    ["struck", before],
    ["text", ` \u2192 ${after} with ${headsOff.off} of ${headsOff.total} heads off)`],
  ];
}

/** A probability before and after some change, as percentages of which only the second has its sign. */
export function changeWords(before: number, after: number): [string, string] {
  const close = Math.abs(before - after) < CLOSE;
  const words = (share: number) => (close ? formatPercent(share, 2) : confidence(share));
  return [words(before).replace("\u202f%", ""), words(after)];
}

export const confidence = (probability: number) =>
  probability > CERTAIN ? `over ${formatPercent(0.999)}` : formatPercent(probability);

/** "mostly because of beautifully and warm, despite slow" */
function causes(outcome: Outcome, words: Weighed[]): Phrase[] {
  if (!words.length) return [];
  const all = words.reduce((sum, { score }) => sum + Math.abs(score), 0);
  if (!all) return [["text", "every word scores 0"]];
  const most = Math.max(...words.map(({ score }) => Math.abs(score)));
  if (most <= DECISIVE * all) return [["text", "no single word decides it"]];
  const [speaksFor, against] = [strongest(words), opposing(words, most)];
  if (!outcome.aboutTarget) {
    return [
      ...list(speaksFor, "for", outcome),
      ["text", speaksFor.length > 1 ? " are" : " is"],
      ["text", " attended to most"],
    ];
  }
  const despite: Phrase[] = against.length ? [["text", "despite "], ...list(against, "against", outcome)] : [];
  if (!speaksFor.length) return despite;
  const reach = outcome.special > MOST ? "among the words," : "mostly";
  const because: Phrase[] = [["text", `${reach} because of `], ...list(speaksFor, "for", outcome)];
  return despite.length ? [...because, ["text", ", "], ...despite] : because;
}

/** "slow speaks for it; beautifully against" */
function pleas(outcome: Outcome, words: Weighed[]): Phrase[] {
  const most = Math.max(0, ...words.map(({ score }) => Math.abs(score)));
  if (!most) return words.length ? [["text", "every word scores 0"]] : [];
  const [speaksFor, against] = [strongest(words), opposing(words, most)];
  const name = isContrary(outcome) ? "it" : outcome.prediction;
  const verb = speaksFor.length > 1 ? " speak" : " speaks";
  const parts: Phrase[] = speaksFor.length
    ? [...list(speaksFor, "for", outcome), ["text", `${verb} for ${name}`]]
    : [["text", `nothing speaks for ${name}`]];
  return against.length
    ? [...parts, ["text", "; "], ...list(against, "against", outcome), ["text", " against"]]
    : parts;
}

/** The strongest words for the target until they hold most of the score for it, at most three. */
function strongest(words: Weighed[]): Weighed[] {
  const supporting = words.filter(({ score }) => score > 0);
  const total = supporting.reduce((sum, { score }) => sum + score, 0);
  const chosen: Weighed[] = [];
  let held = 0;
  for (const word of bySize(supporting)) {
    if (chosen.length === MOST_FOR || held >= ENOUGH * total) break;
    held += word.score;
    if (!chosen.some(({ text }) => text === word.text)) chosen.push(word);
  }
  return chosen;
}

/** Up to two words that speak notably against the target. */
const opposing = (words: Weighed[], most: number) =>
  bySize(words.filter(({ score }) => score < 0))
    .filter(({ score }) => -score >= NOTABLE * most)
    .slice(0, MOST_AGAINST);

const bySize = (words: Weighed[]) => [...words].sort((a, b) => Math.abs(b.score) - Math.abs(a.score));

/** A word as a sentence names it: punctuation has quotation marks. */
export const nameInSentence = (text: string) => (/[\p{L}\p{N}]/u.test(text) ? text : `\u201c${text}\u201d`);

function list(words: Weighed[], kind: "for" | "against", { parts }: Outcome): Phrase[] {
  return words.flatMap(({ text, part }, i): Phrase[] => {
    const joint = i === 0 ? "" : i === words.length - 1 ? " and " : ", ";
    const place = parts > 1 ? ` (${part ? "second" : "first"} text)` : "";
    const phrases: Phrase[] = [
      ["text", joint],
      [kind, nameInSentence(text)],
      ["text", place],
    ];
    return phrases.filter(([, piece]) => piece);
  });
}

const TAGS = { class: "strong", for: "em", against: "em", struck: "s" } as const;

/** The sentence as elements. */
export const phraseNodes = (phrases: Phrase[]) =>
  phrases.map(([kind, text]) =>
    kind === "text" ? h("span", {}, text) : h(TAGS[kind], { class: `nbsal-word-${kind}` }, text),
  );
