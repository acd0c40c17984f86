// The explanation that a model holds, decoded; tokens are decoded again only if they changed.

import type { Context } from "./context";
import { rowsOf, type Token, tokensOf, type WiredTokens } from "./decode";
import type { Decision, ExplanationTraits } from "./traits";

export interface Explanation extends Decision {
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
      const rows = rowsOf(get("_scores"), tokens.length);
      if (rows.length && rows.every((row) => row.every(Number.isFinite))) {
        return { ...(result as Decision), tokens, parts: now.parts, rows };
      }
    } catch {} // fewer bytes than tokens
    throw new Error("its data is damaged. Run the cell again.");
  };
}
