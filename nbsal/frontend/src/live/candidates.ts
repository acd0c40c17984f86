// The words that scores propose as reasons, as Python chooses them.

import type { Token } from "../page/decode";
import { marksOf, totals } from "../text/marks";

const MOST_MAIN = 5; // candidates on the side that is expected to matter
const MOST_OTHER = 2;
const MOST_NAMED = 3; // words in a sentence
const ENOUGH = 0.6; // share of the scores of one side that the named words hold
const NOTABLE_SCORE = 0.25; // share of the largest score from which a word on the other side is a candidate

export interface Word {
  text: string;
  score: number;
  part: number;
}

/** Equal words of a part, which count together. */
export interface Candidate extends Word {
  /** The numbers of all its places. */
  words: number[];
}

/** The words of a text with their scores and their tokens, and the share of all scores that lies on special tokens. */
export function scoredWords(tokens: Token[], row: ArrayLike<number>, parts: string[]) {
  const marks = marksOf(tokens, "word");
  const sums = totals(marks, row);
  const words = marks.map(({ part, start, end }, i): Word => {
    return { text: parts[part].slice(start, end), score: sums[i], part };
  });
  const size = (counts: (token: Token) => boolean) =>
    tokens.reduce((sum, token, i) => sum + (counts(token) ? Math.abs(row[i]) : 0), 0);
  const total = size(() => true);
  const special = total ? size((token) => token.special) / total : 0;
  return { words, units: marks.map((mark) => mark.tokens), special };
}

/** In which text of a pair a word is. */
export const whichText = (part: number, parts: number) => (parts > 1 ? ` (${part ? "second" : "first"} text)` : "");

export const sizeOf = (words: Word[]) => words.reduce((sum, { score }) => sum + Math.abs(score), 0);

/** The strongest words for the target, then those against it; with `raises`, those against come first. */
export function candidates(words: Word[], raises = false): Candidate[] {
  const merged = merge(words);
  const most = Math.max(...merged.map(({ score }) => Math.abs(score)));
  const [best, against] = [1, -1].map((sign) =>
    merged
      .filter(({ score }) => sign * score > 0)
      .sort((first, second) => Math.abs(second.score) - Math.abs(first.score)),
  );
  const [main, other] = raises && against.length ? [against, best] : [best, against];
  const notable = other.filter(({ score }) => Math.abs(score) >= NOTABLE_SCORE * most);
  return [...main.slice(0, MOST_MAIN), ...notable.slice(0, MOST_OTHER)];
}

/** The candidates among the words that are neither punctuation nor function words. */
export const contentCandidates = (words: Word[], functionWords: ReadonlySet<string>, raises = false) =>
  candidates(
    words.map((word) => (isFunctionWord(word.text, functionWords) ? { ...word, score: 0 } : word)),
    raises,
  );

/** The first of some words until they hold most of the score of all. */
export function proposed(words: Candidate[]): Candidate[] {
  const total = sizeOf(words);
  const first: Candidate[] = [];
  for (const word of words.slice(0, MOST_NAMED)) if (sizeOf(first) < ENOUGH * total) first.push(word);
  return first;
}

export function isFunctionWord(word: string, functionWords: ReadonlySet<string>) {
  const plain = word
    .toLowerCase()
    .replaceAll("\u2019", "'")
    .replace(/^'+|'+$/g, "");
  return !/[\p{L}\p{N}]/u.test(plain) || functionWords.has(plain);
}

export function merge(words: Word[]): Candidate[] {
  const places = new Map<string, number[]>();
  for (const [i, { part, text }] of words.entries()) {
    const key = `${part} ${text.toLowerCase()}`;
    places.set(key, [...(places.get(key) ?? []), i]);
  }
  return [...places.values()].map((same) => {
    const strongest = same.reduce((most, i) => (Math.abs(words[i].score) > Math.abs(words[most].score) ? i : most));
    return { ...words[strongest], score: same.reduce((sum, i) => sum + words[i].score, 0), words: same };
  });
}
