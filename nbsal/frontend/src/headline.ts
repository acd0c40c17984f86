// The headline of an explanation: the decision in one sentence, with the words that decided it. The same as in Python.

import STOP_WORDS from "../../render/stop_words.json" with { type: "json" };
import { h } from "./dom";
import { formatPercent } from "./format";

/** A word or token with its score, and its part of the text. */
export interface Weighed {
  text: string;
  score: number;
  part: number;
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
}

/** A piece of the sentence; the words for and against the target are marked like the text. */
export type Phrase = ["text" | "class" | "for" | "against", string];

const ENOUGH = 0.6; // share of the weight that the listed words hold
const MOST_FOR = 3;
const MOST_AGAINST = 2;
const NOTABLE = 0.25; // share of the largest score from which a word against the target is named
const DECISIVE = 0.05; // share of all weight above which a single word counts
const CERTAIN = 0.9995;
const LEANING = 0.6;
const stopWords = new Set(STOP_WORDS);

export function headline(outcome: Outcome, words: Weighed[]): Phrase[] {
  const { prediction, target, aboutTarget } = outcome;
  const contrary = aboutTarget && target !== prediction;
  const lead = contrary ? question(outcome) : verdict(outcome);
  const reasons = contrary ? pleas(outcome, words) : causes(outcome, words);
  return reasons.length ? [...lead, ["text", " \u2014 "], ...reasons, ["text", "."]] : [...lead, ["text", "."]];
}

/** "positive, 99.8 %" */
function verdict({ prediction, probability }: Outcome): Phrase[] {
  if (probability === null) return [["class", prediction]];
  const lead: Phrase[] = probability < LEANING ? [["text", "leaning "]] : [];
  return [...lead, ["class", prediction], ["text", `, ${confidence(probability)}`]];
}

/** "Why not negative? (0.2 %)" */
function question({ target, targetProbability }: Outcome): Phrase[] {
  const share = targetProbability === null ? "" : ` (${confidence(targetProbability)})`;
  const contrast = target.includes(" \u2212 ");
  return [
    ["text", contrast ? "Why " : "Why not "],
    ["class", target],
    ["text", `?${share}`],
  ];
}

const confidence = (probability: number) =>
  probability > CERTAIN ? `over ${formatPercent(0.999)}` : formatPercent(probability);

/** "mostly because of beautifully and warm, despite slow" */
function causes(outcome: Outcome, words: Weighed[]): Phrase[] {
  if (!words.length) return [];
  const all = words.reduce((sum, { score }) => sum + Math.abs(score), 0);
  if (!all) return [["text", "no word has any weight"]];
  const most = Math.max(...words.map(({ score }) => Math.abs(score)));
  if (most <= DECISIVE * all) return [["text", "no single word decides it"]];
  const [speaksFor, against] = [strongest(words, 1), opposing(words, most)];
  if (!outcome.aboutTarget) {
    return [
      ...list(speaksFor, "for", outcome),
      ["text", speaksFor.length > 1 ? " are" : " is"],
      ["text", " attended to most"],
    ];
  }
  const despite: Phrase[] = against.length ? [["text", "despite "], ...list(against, "against", outcome)] : [];
  if (!speaksFor.length) return despite;
  const because: Phrase[] = [["text", "mostly because of "], ...list(speaksFor, "for", outcome)];
  return despite.length ? [...because, ["text", ", "], ...despite] : because;
}

/** "slow speaks for it; beautifully against" */
function pleas(outcome: Outcome, words: Weighed[]): Phrase[] {
  const most = Math.max(0, ...words.map(({ score }) => Math.abs(score)));
  if (!most) return words.length ? [["text", "no word has any weight"]] : [];
  const [speaksFor, against] = [strongest(words, 1), opposing(words, most)];
  const parts: Phrase[] = speaksFor.length
    ? [...list(speaksFor, "for", outcome), ["text", speaksFor.length > 1 ? " speak for it" : " speaks for it"]]
    : [["text", "nothing speaks for it"]];
  return against.length
    ? [...parts, ["text", "; "], ...list(against, "against", outcome), ["text", " against"]]
    : parts;
}

/** The strongest words of one sign until they hold most of the weight of that sign, at most three. */
function strongest(words: Weighed[], sign: 1 | -1): Weighed[] {
  const all = words.filter(({ score }) => sign * score > 0);
  const candidates = meaningful(all);
  const total = all.reduce((sum, { score }) => sum + Math.abs(score), 0);
  const chosen: Weighed[] = [];
  let held = 0;
  for (const word of byWeight(candidates)) {
    if (chosen.length === MOST_FOR || held >= ENOUGH * total) break;
    held += Math.abs(word.score);
    if (!chosen.some(({ text }) => text === word.text)) chosen.push(word);
  }
  return chosen;
}

/** Up to two words that speak notably against the target. */
const opposing = (words: Weighed[], most: number) =>
  byWeight(meaningful(words.filter(({ score }) => score < 0)))
    .filter(({ score }) => -score >= NOTABLE * most)
    .slice(0, MOST_AGAINST);

const byWeight = (words: Weighed[]) => [...words].sort((a, b) => Math.abs(b.score) - Math.abs(a.score));

/** Words that are neither punctuation nor stop words, unless there are no others. */
function meaningful(words: Weighed[]): Weighed[] {
  const named = words.filter(({ text }) => /[\p{L}\p{N}]/u.test(text) && !stopWords.has(text.toLowerCase()));
  return named.length ? named : words;
}

function list(words: Weighed[], kind: "for" | "against", { parts }: Outcome): Phrase[] {
  return words.flatMap(({ text, part }, i): Phrase[] => {
    const joint = i === 0 ? "" : i === words.length - 1 ? " and " : ", ";
    const place = parts > 1 ? ` (${part ? "second" : "first"} text)` : "";
    const phrases: Phrase[] = [
      ["text", joint],
      [kind, text],
      ["text", place],
    ];
    return phrases.filter(([, piece]) => piece);
  });
}

const TAGS = { class: "strong", for: "em", against: "em" } as const;

/** The sentence as elements. */
export const phraseNodes = (phrases: Phrase[]) =>
  phrases.map(([kind, text]) =>
    kind === "text" ? h("span", {}, text) : h(TAGS[kind], { class: `nbsal-word-${kind}` }, text),
  );
