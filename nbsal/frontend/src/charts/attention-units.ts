// The words, tokens and special tokens on the axes of an attention map, and the attention between them.

import type { Token } from "../page/decode";
import type { Level } from "../page/traits";
import { type Mark, marksOf } from "../text/marks";

/** A word, token or special token on the axes of an attention map. */
export interface Unit {
  name: string;
  tokens: number[];
  special: boolean;
}

/** The units of a text in order, special tokens included. */
export function unitsOf(tokens: Token[], parts: string[], level: Level): Unit[] {
  const nameOf = ({ part, start, end }: Mark) => parts[part].slice(start, end);
  const units = marksOf(tokens, level).map((mark) => ({ name: nameOf(mark), tokens: mark.tokens, special: false }));
  for (const [i, token] of tokens.entries())
    if (token.special) units.push({ name: token.name, tokens: [i], special: true });
  return units.sort((a, b) => a.tokens[0] - b.tokens[0]);
}

/** The attention of a unit to all others: the mean over its tokens, summed over theirs; `weight` is that of tokens. */
export const attentionOf = (from: Unit, units: Unit[], weight: (query: number, key: number) => number) =>
  units.map(({ tokens }) => {
    let sum = 0;
    for (const query of from.tokens) for (const key of tokens) sum += weight(query, key);
    return sum / from.tokens.length;
  });
