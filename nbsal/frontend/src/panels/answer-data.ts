// An answer as its page reads it: tokens, rows of scores, and sums of them over parts of the reply and of the sources.

import type { AnswerLevel, AnswersTraits, ReplyFacts, SourceCard } from "../page/answer-traits";
import type { Context } from "../page/context";
import { scoresOf, type Token, tokensOf } from "../page/decode";
import type { Mark } from "../text/marks";
import { marksOf } from "../text/marks";

export interface AnswerData {
  tokens: Token[];
  /** The texts of the sources, and last the reply. */
  parts: string[];
  /** A row of scores for each token of the reply; none while the reply is written. */
  rows: Float64Array[];
  sources: SourceCard[];
  reply: ReplyFacts;
}

const FAINTEST = 0.3; // opacity of a word that the model finds impossible

/** The words of the reply, faint as far as the model is unsure of them. */
export function fadedMarks(marks: Mark[], { start, logprobs }: ReplyFacts): Mark[] {
  return marks.map((mark) => {
    const sum = mark.tokens.reduce((total, token) => total + (logprobs[token - start] ?? 0), 0);
    return { ...mark, opacity: FAINTEST + (1 - FAINTEST) * Math.exp(sum) };
  });
}

/** While the reply is written, nothing is known of it. */
const NO_REPLY = { start: 0, logprobs: [] as number[], sentences: [] as number[] } as ReplyFacts;

/** A function that reads the answer; tokens and scores are decoded again only if they changed. */
export function answerReader({ get }: Pick<Context<AnswersTraits>, "get">): () => AnswerData | null {
  let wired: unknown[] = [];
  let decoded: Pick<AnswerData, "tokens" | "rows"> = { tokens: [], rows: [] };
  return () => {
    const [now, scores] = [get("_tokens"), get("_scores")];
    if (!now.parts) return null;
    if (now !== wired[0] || scores !== wired[1]) {
      wired = [now, scores];
      const tokens = tokensOf(now);
      decoded = { tokens, rows: tokens.length ? scoresOf(scores, tokens.length) : [] };
    }
    const reply = decoded.rows.length ? (get("_facts") as ReplyFacts) : NO_REPLY;
    return { ...decoded, parts: now.parts, sources: get("_sources"), reply };
  };
}

/** The parts of one text that are shaded as one. */
export function answerMarks({ tokens, parts, sources, reply }: AnswerData, part: number, level: AnswerLevel): Mark[] {
  const isReply = part === parts.length - 1;
  const unit = isReply && level === "document" ? "word" : level;
  const starts =
    unit === "sentence" && (isReply || !reply.hides_parts) // or else a part that is hidden as one is a word
      ? new Set(isReply ? reply.sentences.map((token) => token + reply.start) : sources[part].sentences)
      : null;
  const places = tokens.map((token, i) => ({
    ...token,
    special: token.special || token.part !== part,
    part: 0,
    first: unit === "document" ? false : starts ? starts.has(i) : token.first,
  }));
  return marksOf(places, unit === "token" ? "token" : "word");
}

/** The sum of some rows. */
export function sumRows(rows: Float64Array[], chosen: number[], size: number) {
  const sum = new Float64Array(size);
  for (const row of chosen) for (let i = 0; i < size; i++) sum[i] += rows[row][i];
  return sum;
}

/** The numbers of the reply's tokens that are text. */
export const contentOf = ({ tokens, reply }: AnswerData) =>
  tokens.slice(reply.start).flatMap(({ special }, i) => (special ? [] : [i]));

/** What each source adds, and last what the reply so far does, as signed shares whose sizes sum to 1. */
export function sharesOf({ tokens, parts, reply }: AnswerData, scores: ArrayLike<number>) {
  const sums = parts.map(() => 0);
  for (const [i, { special, part }] of tokens.entries()) {
    if (special) continue;
    sums[i >= reply.start ? sums.length - 1 : part] += scores[i] ?? 0;
  }
  const total = sums.reduce((sum, value) => sum + Math.abs(value), 0);
  return sums.map((value) => value / (total || 1));
}

/** Some tokens of a text as words; those apart are joined by an ellipsis. */
export function textOf({ tokens, parts }: AnswerData, positions: number[]) {
  const runs: number[][] = [];
  for (const i of positions) {
    if (runs.at(-1)?.at(-1) === i - 1) runs.at(-1)?.push(i);
    else runs.push([i]);
  }
  return runs
    .map((run) => {
      const [first, last] = [tokens[run[0]], tokens[run[run.length - 1]]];
      return parts[first.part].slice(first.start, last.end).trim();
    })
    .join(" \u2026 ");
}
