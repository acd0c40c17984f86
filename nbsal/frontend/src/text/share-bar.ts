// How the score divides between the words, which are coloured, and special tokens, which are not.

import type { Token } from "../page/decode";
import { h } from "../page/dom";
import { formatPercent, formatScore } from "../page/format";

const MOST = 0.5;
const ALMOST_ALL = 0.8;
const TITLE = "How the score divides between the words, which are coloured, and special tokens, which are not";

export function shareBar() {
  const [words, special] = [h("span"), h("span")];
  const bar = h("span", { class: "nbsal-share-bar" });
  const warning = h("p", { class: "nbsal-warning", hidden: true });
  const node = h("div", { class: "nbsal-share", title: TITLE }, words, bar, special, warning);
  return {
    node,
    /** @param share of all absolute scores on special tokens */
    draw(tokens: Token[], scores: Float64Array, share: number) {
      words.textContent = `${formatPercent(1 - share, 0)} of the score on words`;
      special.textContent = `${formatPercent(share, 0)} on special tokens`;
      special.title = specialTokens(tokens, scores);
      node.style.setProperty("--w", `${100 * (1 - share)}%`);
      node.classList.toggle("nbsal-mostly-special", share > MOST);
      warning.hidden = share <= MOST;
      warning.textContent = `Most of the score lies on special tokens${where(tokens, scores)}. Colours compare the words alone.`;
    },
  };
}

/** The share of all absolute scores that lies on special tokens. */
export function specialShare(tokens: Token[], scores: Float64Array) {
  const all = scores.reduce((sum, score) => sum + Math.abs(score), 0);
  return all ? sizes(tokens, scores).reduce((sum, [, size]) => sum + size, 0) / all : 0;
}

/** The names of special tokens and the sizes of their scores. */
const sizes = (tokens: Token[], scores: Float64Array) =>
  tokens.flatMap(({ special, name }, i): [string, number][] => (special ? [[name, Math.abs(scores[i])]] : []));

/** Which special token has almost all of their score, if one has. */
function where(tokens: Token[], scores: Float64Array) {
  const special = sizes(tokens, scores);
  const all = special.reduce((sum, [, size]) => sum + size, 0);
  const [name] = special.find(([, size]) => size > ALMOST_ALL * all) ?? [];
  return name ? `, almost all on ${name}` : "";
}

const specialTokens = (tokens: Token[], scores: Float64Array) =>
  tokens
    .flatMap(({ special, name }, i) => (special ? [`${name} ${formatScore(scores[i])}`] : []))
    .slice(0, 8)
    .join(", ");
