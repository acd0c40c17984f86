// The words by weight: a bar for each, for the target to the right of a common zero, against it to the left.

import type { Context } from "./context";
import { closest, consume, h, uniqueId } from "./dom";
import { formatScore } from "./format";
import { nextItem } from "./keyboard";
import type { Mark } from "./marks";
import { hoverSender } from "./scored-text";
import type { ExplanationTraits } from "./traits";

const LISTED = 10;

export function ranking(context: Context<ExplanationTraits>) {
  const { get, set, on, signal } = context;
  const uid = uniqueId();
  const hover = hoverSender(context);
  let listed: number[] = []; // marks, the strongest first
  let marks: Mark[] = [];
  let active = 0;
  const rowOf = (event: Event) => Number(closest(event, "[data-row]")?.dataset.row ?? -1);
  const select = (row: number) => {
    const { tokens } = marks[listed[row]];
    const selected = JSON.stringify(get("selection")) === JSON.stringify(tokens);
    set({ selection: selected ? [] : tokens });
  };
  const activate = (row: number) => {
    list.children[active]?.classList.remove("nbsal-active");
    active = row;
    list.children[row]?.classList.add("nbsal-active");
    list.setAttribute("aria-activedescendant", `${uid}-${row}`);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = nextItem(event, active, listed.length, { line: (from, down) => from + down });
    if (row !== null) activate(Math.max(0, Math.min(listed.length - 1, row)));
    else if ((event.key === "Enter" || event.key === " ") && listed.length) select(active);
    else return;
    consume(event);
  };
  const list = h("ol", {
    class: "nbsal-ranking",
    role: "listbox",
    tabindex: 0,
    "aria-label": "The words by weight",
    signal,
    click: (event) => rowOf(event) >= 0 && select(rowOf(event)),
    pointerover: (event) => rowOf(event) >= 0 && hover(marks[listed[rowOf(event)]].tokens[0]),
    pointerleave: () => hover(null),
    keydown: onKeyDown,
  });
  const unit = h("span");
  const node = h(
    "section",
    { class: "nbsal-panel nbsal-evidence" },
    h("header", {}, h("h3", {}, "The words by weight"), unit),
    list,
  );
  const drawState = () => {
    const selection = new Set(get("selection"));
    for (const [row, k] of listed.entries()) {
      const line = list.children[row];
      line?.setAttribute("aria-selected", String(marks[k].tokens.some((i) => selection.has(i))));
      line?.classList.toggle("nbsal-hover", marks[k].tokens.includes(get("hover") ?? -1));
    }
  };
  on(["selection", "hover"], drawState);
  return {
    node,
    draw(next: Mark[], texts: { text: string; score: number }[], unitName: string) {
      marks = next;
      unit.textContent = unitName;
      const weights = texts.map(({ score }) => score);
      listed = weights
        .map((_, k) => k)
        .sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]) || a - b)
        .slice(0, LISTED);
      const [low, high] = [Math.min(0, ...weights), Math.max(0, ...weights)];
      const at = (score: number) => (100 * (score - low)) / (high - low || 1);
      list.style.setProperty("--zero", `${at(0)}%`);
      active = 0;
      list.replaceChildren(...listed.map((k, row) => drawRow(`${uid}-${row}`, row, texts[k], at)));
      drawState();
    },
  };
}

function drawRow(
  id: string,
  row: number,
  { text, score }: { text: string; score: number },
  at: (score: number) => number,
) {
  const bar = h("i");
  bar.style.setProperty("--from", `${Math.min(at(0), at(score))}%`);
  bar.style.setProperty("--length", `${Math.abs(at(score) - at(0))}%`);
  const properties = { role: "option", "aria-selected": "false", "data-row": row, id };
  return h(
    "li",
    { ...properties, class: score < 0 ? "nbsal-against" : "" },
    h("b", { title: text }, text),
    bar,
    h("span", {}, formatScore(score)),
  );
}
