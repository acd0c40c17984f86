// A search in a text; Enter goes to the next match, Shift+Enter to the previous one.

import { h, stopPropagation } from "../page/dom";
import type { ScoredText } from "./scored-text";

export function search({ signal }: { signal: AbortSignal }, text: Pick<ScoredText, "node" | "reveal">) {
  let matches: number[] = [];
  let current = -1;
  const count = h("output");
  const drawCount = () => {
    const position = matches.length ? `${current + 1} of ${matches.length}` : "Not found";
    count.textContent = input.value ? position : "";
  };
  const find = () => {
    const query = input.value.toLocaleLowerCase();
    matches = [];
    for (const [k, mark] of text.node.querySelectorAll(".nbsal-mark").entries()) {
      const isMatch = query !== "" && mark.textContent.toLocaleLowerCase().includes(query);
      mark.classList.toggle("nbsal-match", isMatch);
      if (isMatch) matches.push(k);
    }
    current = -1;
    drawCount();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    stopPropagation(event);
    if (event.key === "Escape") {
      input.value = "";
      find();
    }
    if (event.key !== "Enter" || !matches.length) return;
    if (current < 0 && event.shiftKey) current = 0; // backwards from the start: the last match
    current = (current + (event.shiftKey ? -1 : 1) + matches.length) % matches.length;
    text.reveal(matches[current]);
    drawCount();
  };
  const properties = { type: "search", placeholder: "Find in text\u2026", "aria-label": "Find in the text" };
  const input = h("input", { ...properties, signal, input: find, keydown: onKeyDown });
  return { node: h("span", { class: "nbsal-search", hidden: true }, input, count), refresh: find };
}
