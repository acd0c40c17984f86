// What is said of attention heads: which are on, what one is known for and what it attends to.

import type { Token } from "../page/decode";
import { formatPercent } from "../page/format";
import type { Decision, Head, HeadEffect, HeadsTraits, Level } from "../page/traits";
import { type Mark, marksOf } from "../text/marks";

type Kind = HeadsTraits["kind"];

export const headName = ([block, head]: Head) => `block ${block}, head ${head}`;

/** Which heads are on, as the choice says it. */
export function headsOn(
  kind: Kind,
  { off, total, toggled, named }: Record<"off" | "total" | "toggled", number> & { named: boolean },
) {
  if (toggled && off === 0) return "All";
  if (toggled) return off <= total / 2 ? `All but ${off}` : `${total - off} of ${total}`;
  return kindName(kind, named);
}

/** @param named whether any head follows something; if not, "both" is what the mask selects */
export function kindName(kind: Kind, named: boolean) {
  if (kind === "both") return named ? "Syntax and position" : "The mask";
  return { all: "All", syntactic: "Syntax", positional: "Position", none: "None" }[kind];
}

/** The classes with all heads, and without those that are off; the likeliest first. */
export const changesOf = ({ probabilities }: Decision, { off, without }: Partial<HeadEffect>) =>
  [...probabilities]
    .sort((a, b) => b[1] - a[1])
    .map(([name, before]) => {
      const now = off ? without?.probabilities.find(([label]) => label === name)?.[1] : before;
      return { name, before, now: now ?? before };
    });

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

/** "warm attends to [CLS] · 55 % of its attention" */
export const attentionWords = (from: string, to: string, share: number) =>
  `${from} attends to ${to} \u00b7 ${formatPercent(share, 0)} of its attention`;

/** What a head is known for and, once it is computed, what it attends to in this text or from the selected words. */
export const attentionHeading = ([block, head]: Head, habit: string, here = "") =>
  `Block ${block}, head ${head}: ${habit}${here && `; ${here}`}`;
