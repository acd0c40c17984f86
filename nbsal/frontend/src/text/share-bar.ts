// How the score divides between the words, which are coloured, and special tokens, which are not.

import { h } from "../page/dom";
import type { Shares } from "../page/traits";

const TITLE = "How the score divides between the words, which are coloured, and special tokens, which are not";

export function shareBar() {
  const [words, special] = [h("span"), h("span")];
  const bar = h("span", { class: "nbsal-share-bar" });
  const warning = h("p", { class: "nbsal-warning", hidden: true });
  const node = h("div", { class: "nbsal-share nbsal-small", title: TITLE }, words, bar, special, warning);
  return {
    node,
    draw(legend: Shares) {
      [words.textContent, special.textContent] = legend.shares;
      special.title = legend.tokens;
      node.style.setProperty("--w", `${100 * (1 - legend.special)}%`);
      node.classList.toggle("nbsal-mostly-special", Boolean(legend.warning));
      warning.hidden = !legend.warning;
      warning.textContent = legend.warning;
    },
  };
}
