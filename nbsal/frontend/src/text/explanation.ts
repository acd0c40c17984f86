// The explanation that a model holds, decoded; tokens are decoded again only if they changed.

import type { Context } from "../page/context";
import { scoresOf, type Token, tokensOf, type WiredTokens } from "../page/decode";
import type { Decision, ExplanationTraits } from "../page/traits";

export interface Explanation extends Decision {
  tokens: Token[];
  parts: string[];
  /** A row of scores for each explanation or layer. */
  rows: Float64Array[];
}

type Source = Pick<Context<ExplanationTraits>, "get" | "isOlder">;

/** A function that reads the explanation, or null while there is none; one of an older text is passed over. */
export function explanationReader({ get, isOlder }: Source): () => Explanation | null {
  let latest: Explanation | null = null;
  let wired: WiredTokens | null = null;
  let tokens: Token[] = [];
  return () => {
    const [now, result] = [get("_tokens"), get("_result")];
    if (latest && isOlder()) return latest;
    if (!now.parts) return null;
    if (now !== wired) [wired, tokens] = [now, tokensOf(now)];
    latest = { ...(result as Decision), tokens, parts: now.parts, rows: scoresOf(get("_scores"), tokens.length) };
    return latest;
  };
}
