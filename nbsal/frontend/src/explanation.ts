// The explanation that a model holds, decoded; tokens are decoded again only if they changed.

import type { Context } from "./context";
import { rowsOf, type Token, tokensOf, type WiredTokens } from "./decode";
import { formatScore } from "./format";
import { type Mark, marksOf } from "./marks";
import type { ScoredText } from "./scored-text";
import type { ExplanationTraits, Result, ShadedTraits } from "./traits";

export interface Explanation extends Result {
  tokens: Token[];
  parts: string[];
  /** A row of scores for each explanation or layer. */
  rows: Float64Array[];
}

/** A function that reads the explanation, or null while there is none. */
export function explanationReader({ get }: Pick<Context<ExplanationTraits>, "get">): () => Explanation | null {
  let wired: WiredTokens | null = null;
  let tokens: Token[] = [];
  return () => {
    const [now, result] = [get("_tokens"), get("_result")];
    if (!now.parts) return null;
    try {
      if (now !== wired) [wired, tokens] = [now, tokensOf(now)];
      const { scales = [] } = result;
      const rows = rowsOf(get("_scores"), scales);
      if (rows.every((row) => row.length === tokens.length)) {
        return { ...(result as Result), tokens, parts: now.parts, rows };
      }
    } catch {} // fewer bytes than tokens
    throw new Error("its data is damaged. Run the cell again.");
  };
}

/** A function that lays out texts if the tokens or the level changed, and returns the marks. */
export function layoutCache(level: () => ShadedTraits["level"], texts: Pick<ScoredText, "layOut">[]) {
  let marks: Mark[] = [];
  let laidOut: unknown[] = [];
  return ({ tokens, parts, answer }: Explanation) => {
    if (tokens !== laidOut[0] || level() !== laidOut[1]) {
      laidOut = [tokens, level()];
      marks = marksOf(tokens, level());
      for (const text of texts) text.layOut(marks, parts, (k) => markName(tokens, parts, marks[k]), answer);
    }
    return marks;
  };
}

/** The text of a mark, with the model's names of its tokens where these differ. */
function markName(tokens: Token[], parts: string[], { part, start, end, tokens: members }: Mark) {
  const text = parts[part].slice(start, end);
  const names = members.map((i) => tokens[i].name).filter((name) => name && !text.includes(name));
  return names.length ? `${text} (${names.join(" ")})` : text;
}

/** The scores of special tokens, which are not part of the text, in words. */
export function specialTokens(tokens: Token[], scores: Float64Array) {
  const special = tokens.flatMap((token, i) => (token.special ? [`${token.name} ${formatScore(scores[i])}`] : []));
  if (!special.length) return "";
  const more = special.length > 6 ? ` and ${special.length - 6} more` : "";
  return `special tokens not shown: ${special.slice(0, 6).join(", ")}${more}`;
}
