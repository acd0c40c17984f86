// @ts-check
// Words: tokens joined to what is shaded as one: a token with those that share its character, or a word.

/** @typedef {import("./decode.js").Token} Token */
/** @typedef {{ part: number, start: number, end: number, tokens: number[] }} Mark */

/**
 * The stretches of the text that are shaded, in reading order.
 * @param {Token[]} tokens
 * @param {"token" | "word"} level
 * @returns {Mark[]}
 */
export function marksOf(tokens, level) {
  /** @type {Mark[]} */
  const found = [];
  tokens.forEach((token, i) => {
    if (token.special) return;
    const last = found.at(-1);
    const joins = last?.part === token.part && (token.end <= last.end || (level === "word" && !token.first));
    if (last && joins) {
      last.tokens.push(i);
      last.end = Math.max(last.end, token.end);
    } else {
      const start = last?.part === token.part ? Math.max(last.end, token.start) : token.start;
      if (token.end > start) found.push({ part: token.part, start, end: token.end, tokens: [i] });
    }
  });
  return found;
}

/**
 * The score of each mark: the sum of its tokens'.
 * @param {Mark[]} marks
 * @param {ArrayLike<number>} scores
 */
export const totals = (marks, scores) => marks.map((mark) => mark.tokens.reduce((sum, i) => sum + scores[i], 0));

/**
 * The largest size among scores: full colour.
 * @param {ArrayLike<number>} scores
 */
export const largestOf = (scores) => Array.from(scores).reduce((most, score) => Math.max(most, Math.abs(score)), 0);

/**
 * The place of each value from the largest, 1, to the smallest; the earlier of two equal ones first.
 * @param {ArrayLike<number>} values
 */
export function ranks(values) {
  const order = Array.from(values, (_, i) => i).sort((a, b) => values[b] - values[a] || a - b);
  const found = new Array(order.length);
  for (const [place, i] of order.entries()) found[i] = place + 1;
  return found;
}

/**
 * The text of each part with the marks' stretches cut out: gaps[k] stands before mark k, tails[p] ends part p.
 * @param {Mark[]} marks
 * @param {string[]} parts
 */
export function gapsOf(marks, parts) {
  const at = parts.map(() => 0);
  const gaps = marks.map(({ part, start, end }) => {
    const gap = parts[part].slice(at[part], start);
    at[part] = end;
    return gap;
  });
  return { gaps, tails: parts.map((text, part) => text.slice(at[part])) };
}
