// What stands beside a row of scores: how it divides between words and special tokens, and its strongest words.

import type { Token } from "../page/decode";
import type { Legend, Level, RankedList, Shares } from "../page/traits";
import { largestOf, type Mark, marksOf, namedMark, totals } from "../text/marks";
import { merge, whichText } from "./candidates";
import { formatPercent, formatScore, formatScores, nameInSentence } from "./format";

const MOST = 0.5;
const ALMOST_ALL = 0.8;
const LISTED = 8; // special tokens in a tooltip
const RANKED = 10;

export function legendOf(tokens: Token[], scores: ArrayLike<number>, parts: string[]): Legend {
  const of = (level: Level) => strongest(marksOf(tokens, level), marksOf(tokens, "word"), scores, parts);
  const ranked = (level: Level) => rankedOf(marksOf(tokens, level), level, scores, parts);
  return {
    ...sharesOf(tokens, scores),
    strongest: { word: of("word"), token: of("token") },
    ranked: { word: ranked("word"), token: ranked("token") },
  };
}

/** How a row of scores divides between words and special tokens. */
function sharesOf(tokens: Token[], scores: ArrayLike<number>): Shares {
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

/** The strongest words; equal ones of a text are one, tokens are not. */
function rankedOf(marks: Mark[], level: Level, scores: ArrayLike<number>, parts: string[]): RankedList {
  const sums = totals(marks, scores);
  const words = marks.map((mark, k) => ({ ...namedMark(mark, parts), part: mark.part, score: sums[k] }));
  const groups = level === "word" ? merge(words) : words.map((word, k) => ({ ...word, words: [k] }));
  const listed = groups.sort((a, b) => Math.abs(b.score) - Math.abs(a.score)).slice(0, RANKED);
  const { texts, power } = formatScores(listed.map(({ score }) => score));
  const largest = largestOf(listed.map(({ score }) => score)) || 1;
  const rows = listed.map(({ text, part, score, words }, row) => {
    const { before, after } = namedMark(marks[words[0]], parts);
    const often = words.length > 1 ? ` \u00d7 ${words.length}` : "";
    const aside = often + whichText(part, parts.length);
    const tokens = words.flatMap((k) => marks[k].tokens);
    return { name: [before, text, after], aside, number: texts[row], share: score / largest, tokens };
  });
  return { power, rows };
}
