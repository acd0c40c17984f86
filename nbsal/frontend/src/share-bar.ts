// How the score divides between the words, which are coloured, and special tokens, which are not.

import type { Token } from "./decode";
import { h } from "./dom";
import { formatPercent, formatScore } from "./format";

const MOST = 0.5;
const TITLE = "How the score divides between the words, which are coloured, and special tokens, which are not";

export function shareBar() {
  const [words, special] = [h("span"), h("span")];
  const bar = h("span", { class: "nbsal-share-bar" });
  const warning = h("p", { class: "nbsal-warning", hidden: true });
  const node = h("div", { class: "nbsal-share", title: TITLE }, words, bar, special, warning);
  return {
    node,
    draw(tokens: Token[], scores: Float64Array) {
      const sum = (of: boolean) =>
        tokens.reduce((total, token, i) => total + (token.special === of ? Math.abs(scores[i]) : 0), 0);
      const [inWords, inSpecial] = [sum(false), sum(true)];
      const share = inSpecial / (inWords + inSpecial || 1);
      words.textContent = `${formatPercent(1 - share, 0)} of the score on words`;
      special.textContent = `${formatPercent(share, 0)} on special tokens`;
      special.title = specialTokens(tokens, scores);
      node.style.setProperty("--w", `${100 * (1 - share)}%`);
      node.classList.toggle("nbsal-mostly-special", share > MOST);
      warning.hidden = share <= MOST;
      const [largest, weight] = largestSpecial(tokens, scores);
      const mostly = weight > 0.8 * inSpecial ? `, almost all on ${largest}` : "";
      warning.textContent = `Most of the score lies on special tokens${mostly}. Colours compare the words alone.`;
    },
  };
}

function largestSpecial(tokens: Token[], scores: Float64Array): [string, number] {
  const special = tokens.flatMap(({ special, name }, i): [string, number][] =>
    special ? [[name, Math.abs(scores[i])]] : [],
  );
  return special.reduce((most, entry) => (entry[1] > most[1] ? entry : most), ["", 0]);
}

const specialTokens = (tokens: Token[], scores: Float64Array) =>
  tokens
    .flatMap(({ special, name }, i) => (special ? [`${name} ${formatScore(scores[i])}`] : []))
    .slice(0, 8)
    .join(", ");
