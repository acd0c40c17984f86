// The explanation that a model holds, decoded; tokens are decoded again only if they changed.

import type { Context } from "../page/context";
import { DamagedData, FLOAT, rowsOf, type Token, tokensOf, type WiredTokens } from "../page/decode";
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
    if (now !== wired) [wired, tokens] = [now, allTokens(now)];
    latest = { ...(result as Decision), tokens, parts: now.parts, rows: allRows(get("_scores"), tokens.length) };
    return latest;
  };
}

function allTokens(wired: WiredTokens): Token[] {
  try {
    return tokensOf(wired);
  } catch {
    throw new DamagedData(); // fewer bytes than tokens
  }
}

function allRows(bytes: DataView, count: number): Float64Array[] {
  const rows = rowsOf(bytes, count);
  const size = rows.reduce((sum, row) => sum + row.length * FLOAT, 0);
  if (!size || size !== bytes.byteLength || !rows.every((row) => row.every(Number.isFinite))) throw new DamagedData();
  return rows;
}
