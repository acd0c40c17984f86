// What stands beside a row of scores: how it divides between words and special tokens, and which word is the strongest.

import type { Token } from "../page/decode";
import { formatPercent, formatScore, nameInSentence } from "../page/format";
import type { Legend, Level } from "../page/traits";
import { type Mark, marksOf, totals } from "../text/marks";

const MOST = 0.5;
const ALMOST_ALL = 0.8;
const LISTED = 8; // special tokens in a tooltip

export function legendOf(tokens: Token[], scores: ArrayLike<number>, parts: string[]): Legend {
  const of = (level: Level) => strongest(marksOf(tokens, level), marksOf(tokens, "word"), scores, parts);
  return { ...shareWords(tokens, scores), strongest: { word: of("word"), token: of("token") } };
}

/** How a row of scores divides between words and special tokens. */
export function shareWords(tokens: Token[], scores: ArrayLike<number>): Omit<Legend, "strongest"> {
  const special = [...tokens.entries()].filter(([, token]) => token.special);
  const size = (entries: [number, Token][]) => entries.reduce((sum, [i]) => sum + Math.abs(scores[i]), 0);
  const [all, most] = [size([...tokens.entries()]), size(special)];
  const share = all ? most / all : 0;
  const first = special.find(([i]) => Math.abs(scores[i]) > ALMOST_ALL * most);
  const where = first ? `, almost all on ${first[1].name}` : "";
  const warning = `Most of the score lies on special tokens${where}. Colours compare the words alone.`;
  return {
    special: share,
    shares: [`${formatPercent(1 - share, 0)} of the score on words`, `${formatPercent(share, 0)} on special tokens`],
    tokens: special
      .map(([i, { name }]) => `${name} ${formatScore(scores[i])}`)
      .slice(0, LISTED)
      .join(", "),
    warning: share > MOST ? warning : "",
  };
}

/** The word of the mark with the largest score, and that score. */
function strongest(marks: Mark[], words: Mark[], scores: ArrayLike<number>, parts: string[]): [string, string] {
  const sums = totals(marks, scores);
  const best = sums.reduce((most, sum, k) => (Math.abs(sum) > Math.abs(sums[most]) ? k : most), 0);
  if (!sums[best]) return ["", ""];
  const { part, start, end } = words.find(({ tokens }) => tokens.includes(marks[best].tokens[0])) ?? marks[best];
  return [nameInSentence(parts[part].slice(start, end)), formatScore(sums[best])];
}
