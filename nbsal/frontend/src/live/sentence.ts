// What is said of a result that nothing has checked: the decision and the words that are ranked first, as in Python.

import type { Token } from "../page/decode";
import { confidence, nameInSentence } from "../page/format";
import type { Phrase, Statement } from "../page/traits";
import { marksOf, totals } from "../text/marks";

const LEANING = 0.6; // probability below which a decision is doubtful
const MOST = 0.5; // share of the scores on special tokens above which the sentence is about the words alone
const MOST_FOR = 5;
const MOST_AGAINST = 2;
const MOST_NAMED = 3;
const ENOUGH = 0.6; // share of the scores of one side that the named words hold
const NOTABLE_SCORE = 0.25; // share of the largest score from which a word on the other side is named
const SINGLED_OUT = 0.05; // share of all scores above which a single word counts

export interface Word {
  text: string;
  score: number;
  part: number;
}

/** The facts that a sentence is made of. */
export interface Finding {
  prediction: string;
  target: string;
  probability: number;
  /** Of the target, if it is a class. */
  targetProbability: number | null;
  words: Word[];
  parts: number;
  /** The share of the scores on special tokens. */
  special: number;
  functionWords: ReadonlySet<string>;
}

/** Equal words of a part, which count together. */
interface Candidate extends Word {
  count: number;
}

export function statement(finding: Finding): Statement {
  const sentence = finding.words.length ? [...lead(finding), text(" "), ...scores(finding)] : lead(finding);
  return { sentence, state: "unchecked", badge: "not checked", evidence_line: "", effects: [], advice: "" };
}

/** The words of a text with their scores, and the share of all scores that lies on special tokens. */
export function scoredWords(tokens: Token[], row: ArrayLike<number>, parts: string[]) {
  const marks = marksOf(tokens, "word");
  const sums = totals(marks, row);
  const words = marks.map(({ part, start, end }, i): Word => {
    return { text: parts[part].slice(start, end), score: sums[i], part };
  });
  const size = (counts: (token: Token) => boolean) =>
    tokens.reduce((sum, token, i) => sum + (counts(token) ? Math.abs(row[i]) : 0), 0);
  const total = size(() => true);
  return { words, special: total ? size((token) => token.special) / total : 0 };
}

const text = (words: string): Phrase => ["text", words];

function lead({ prediction, target, probability, targetProbability }: Finding): Phrase[] {
  if (target !== prediction) {
    const named = target.replaceAll(" - ", " \u2212 "); // of a contrast
    const share = targetProbability === null ? "" : ` (${confidence(targetProbability)})`;
    return [text(named === target ? "Why not " : "Why "), ["class", named], text(`${share}?`)];
  }
  const leaning = probability < LEANING ? [text("leaning ")] : [];
  return [...leaning, ["class", prediction], text(`, ${confidence(probability)}`), text(".")];
}

function scores(finding: Finding): Phrase[] {
  const words = candidates(finding.words);
  const total = sizeOf(finding.words);
  if (!total) return [text(everyZero(finding))];
  if (Math.max(...words.map(({ score }) => Math.abs(score))) <= SINGLED_OUT * total) {
    return [text("No single word stands out.")];
  }
  const content = candidates(
    finding.words.map((word) => (isFunctionWord(word, finding) ? { ...word, score: 0 } : word)),
  );
  const [bestContent, againstContent] = [side(content, 1), side(content, -1)];
  const best = proposed(bestContent.length ? bestContent : side(words, 1));
  const against = best.length || againstContent.length ? againstContent : side(words, -1);
  const among = finding.special > MOST ? " among the words" : "";
  return [
    ...(best.length ? [text(`Ranked first${among}: `), ...names(best, finding)] : [text("No word speaks for it")]),
    ...(against.length ? [text("; against it: "), ...names(against, finding)] : []),
    text(" (not checked)."),
  ];
}

const everyZero = ({ special }: Finding) =>
  special
    ? "Every word scores 0: all of the score is on special tokens. Try another layer, or occlusion."
    : "Every word scores 0: the output is saturated or does not depend on the words. Try occlusion.";

/** Whether a word is punctuation, or carries grammar rather than content. */
function isFunctionWord(word: Word, { functionWords }: Finding) {
  const plain = word.text
    .toLowerCase()
    .replaceAll("\u2019", "'")
    .replace(/^'+|'+$/g, "");
  return !/[\p{L}\p{N}]/u.test(plain) || functionWords.has(plain);
}

/** The words for the target (1) or against it (-1). */
const side = (words: Candidate[], sign: number) => words.filter(({ score }) => sign * score > 0);

const sizeOf = (words: Word[]) => words.reduce((sum, { score }) => sum + Math.abs(score), 0);

/** The strongest words for the target, then those against it. */
function candidates(words: Word[]): Candidate[] {
  const merged = merge(words);
  const most = Math.max(...merged.map(({ score }) => Math.abs(score)));
  const bySize = (first: Word, second: Word) => Math.abs(second.score) - Math.abs(first.score);
  const best = merged.filter(({ score }) => score > 0).sort(bySize);
  const second = merged.filter(({ score }) => score < 0 && -score >= NOTABLE_SCORE * most).sort(bySize);
  return [...best.slice(0, MOST_FOR), ...second.slice(0, MOST_AGAINST)];
}

/** The first of some words until they hold most of the score of all. */
function proposed(words: Candidate[]): Candidate[] {
  const total = sizeOf(words);
  const first: Candidate[] = [];
  for (const word of words.slice(0, MOST_NAMED)) if (sizeOf(first) < ENOUGH * total) first.push(word);
  return first;
}

function merge(words: Word[]): Candidate[] {
  const places = new Map<string, Word[]>();
  for (const word of words) {
    const key = `${word.part} ${word.text.toLowerCase()}`;
    places.set(key, [...(places.get(key) ?? []), word]);
  }
  return [...places.values()].map((same) => {
    const strongest = same.reduce((most, word) => (Math.abs(word.score) > Math.abs(most.score) ? word : most));
    return { ...strongest, score: same.reduce((sum, { score }) => sum + score, 0), count: same.length };
  });
}

/** Words in a row, each with how often it is there and its part of a pair. */
function names(words: Candidate[], { parts }: Finding): Phrase[] {
  return words.flatMap(({ text: word, score, part, count }, i): Phrase[] => {
    const joint = i === 0 ? "" : i === words.length - 1 ? " and " : ", ";
    const after = `${count > 1 ? ` \u00d7 ${count}` : ""}${parts > 1 ? ` (${part ? "second" : "first"} text)` : ""}`;
    const phrases: Phrase[] = [text(joint), [score < 0 ? "against" : "for", nameInSentence(word)], text(after)];
    return phrases.filter(([, words]) => words);
  });
}
