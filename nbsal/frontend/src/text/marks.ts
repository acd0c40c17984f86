// The marks of a text, its parts that are shaded as one: tokens (with those that share a character) or words.

import type { Token } from "../page/decode";
import type { Level } from "../page/traits";

export interface Mark {
  part: number;
  start: number;
  end: number;
  /** Positions of its tokens. */
  tokens: number[];
  /** Of a mark within a word: how much of the word is before it, and after it. */
  around?: [number, number];
  opacity?: number;
}

type Place = Pick<Token, "part" | "start" | "end" | "special" | "first">;

/** The marks of a text in reading order. */
export function marksOf(tokens: Place[], level: Level): Mark[] {
  const marks: Mark[] = [];
  for (const [i, token] of tokens.entries()) {
    if (token.special) continue;
    const last = marks.at(-1);
    const joins = last?.part === token.part && (token.end <= last.end || (level === "word" && !token.first));
    if (last && joins) {
      last.tokens.push(i);
      last.end = Math.max(last.end, token.end);
    } else {
      const start = last?.part === token.part ? Math.max(last.end, token.start) : token.start;
      if (token.end > start) marks.push({ part: token.part, start, end: token.end, tokens: [i] });
    }
  }
  return level === "token" ? withinWords(marks, marksOf(tokens, "word")) : marks;
}

function withinWords(marks: Mark[], words: Mark[]): Mark[] {
  const wordOf = new Map(words.flatMap((word) => word.tokens.map((i) => [i, word])));
  return marks.map((mark) => {
    const word = wordOf.get(mark.tokens[0]) ?? mark;
    const around: [number, number] = [mark.start - word.start, word.end - mark.end];
    return around.some((length) => length > 0) ? { ...mark, around } : mark;
  });
}

/** The text of a mark, with what its word has before and after it. */
export function namedMark({ part, start, end, around: [before, after] = [0, 0] }: Mark, parts: string[]) {
  const text = parts[part];
  const [left, right] = [text.slice(start - before, start), text.slice(end, end + after)];
  const own = text.slice(start, end);
  return { text: own, before: left, after: right, word: left + own + right };
}

/** The score of each mark: the sum over its tokens. */
export const totals = (marks: Mark[], scores: ArrayLike<number>) =>
  marks.map((mark) => mark.tokens.reduce((sum, i) => sum + scores[i], 0));

/** The largest absolute score, which has full colour. */
export const largestOf = (scores: ArrayLike<number>) =>
  Array.from(scores).reduce((most, score) => Math.max(most, Math.abs(score)), 0);

/** The places of values, that of the largest first; of equal values the earlier one comes first. */
export const ranked = (values: ArrayLike<number>) =>
  Array.from(values, (_, i) => i).sort((a, b) => values[b] - values[a] || a - b);

/** The rank of each value: 1 for the largest. */
export function ranks(values: ArrayLike<number>) {
  const result = new Array<number>(values.length);
  for (const [rank, i] of ranked(values).entries()) result[i] = rank + 1;
  return result;
}

/** The text between marks: gaps[k] stands before mark k, tails[p] ends part p. */
export function gapsOf(marks: Mark[], parts: string[]) {
  const ends = parts.map(() => 0);
  const gaps = marks.map(({ part, start, end }) => {
    const gap = parts[part].slice(ends[part], start);
    ends[part] = end;
    return gap;
  });
  return { gaps, tails: parts.map((text, part) => text.slice(ends[part])) };
}
