// Strongest words: a bar for each, for the target to the right of a common zero, against it to the left.

import type { Context } from "./context";
import { closest, consume, h, uniqueId } from "./dom";
import { formatScores } from "./format";
import { clamp, nextItem } from "./keyboard";
import type { Mark } from "./marks";
import { type Named, nameNodes } from "./readout";
import { hoverSender } from "./scored-text";
import type { ExplanationTraits } from "./traits";

const LISTED = 10;

type TextContext = Context<ExplanationTraits>;

/** A list of marks as rows, which are selected, pointed at and walked like the text. */
export function markList(context: TextContext, label: string, name = "nbsal-ranking") {
  const { get, set, on, signal } = context;
  const uid = uniqueId();
  const hover = hoverSender(context);
  let rows: Mark[] = [];
  let active = 0;
  const rowOf = (event: Event) => Number(closest(event, "[data-row]")?.dataset.row ?? -1);
  const select = (row: number) => {
    const { tokens } = rows[row];
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
    const count = [...list.children].filter((row) => row.checkVisibility()).length; // a narrow list is short
    const row = nextItem(event, active, count, { line: (from, down) => from + down });
    if (row !== null) activate(clamp(row, count));
    else if ((event.key === "Enter" || event.key === " ") && rows.length) select(active);
    else return;
    consume(event);
  };
  const list = h("ol", {
    class: name,
    role: "listbox",
    tabindex: 0,
    "aria-label": label,
    signal,
    click: (event) => rowOf(event) >= 0 && select(rowOf(event)),
    pointerover: (event) => rowOf(event) >= 0 && hover(rows[rowOf(event)].tokens[0]),
    pointerleave: () => hover(null),
    keydown: onKeyDown,
  });
  const drawState = () => {
    const selection = new Set(get("selection"));
    for (const [row, { tokens }] of rows.entries()) {
      const line = list.children[row];
      line?.setAttribute("aria-selected", String(tokens.some((i) => selection.has(i))));
      line?.classList.toggle("nbsal-hover", tokens.includes(get("hover") ?? -1));
    }
  };
  on(["selection", "hover"], drawState);
  return {
    list,
    /** Draw a row for each mark from the elements in it. */
    draw(marks: Mark[], cells: (row: number) => Node[]) {
      rows = marks;
      active = 0;
      const option = { role: "option", "aria-selected": "false" };
      list.replaceChildren(
        ...rows.map((_, row) => h("li", { ...option, "data-row": row, id: `${uid}-${row}` }, ...cells(row))),
      );
      drawState();
    },
  };
}

/** The numbers of the largest of some sizes, the largest first. */
export const largestFirst = (sizes: number[]) =>
  sizes
    .map((_, k) => k)
    .sort((a, b) => sizes[b] - sizes[a] || a - b)
    .slice(0, LISTED);

export function ranking(context: TextContext) {
  const words = markList(context, "Strongest words");
  const unit = h("span");
  const node = h(
    "section",
    { class: "nbsal-panel nbsal-evidence" },
    h("header", {}, h("h3", {}, "Strongest words"), unit),
    words.list,
  );
  return {
    node,
    draw(marks: Mark[], texts: (Named & { score: number })[], unitName: string) {
      const scores = texts.map(({ score }) => score);
      const listed = largestFirst(scores.map(Math.abs));
      const numbers = formatScores(listed.map((k) => scores[k]));
      unit.textContent = [unitName, numbers.power].filter(Boolean).join(" \u00b7 ");
      const [low, high] = [Math.min(0, ...scores), Math.max(0, ...scores)];
      const at = (score: number) => (100 * (score - low)) / (high - low || 1);
      words.list.style.setProperty("--zero", `${at(0)}%`);
      words.draw(
        listed.map((k) => marks[k]),
        (row) => bar(texts[listed[row]], numbers.texts[row], at),
      );
    },
  };
}

function bar(named: Named & { score: number }, number: string, at: (score: number) => number) {
  const { score, word } = named;
  const line = h("i", { class: score < 0 ? "nbsal-against" : "" });
  line.style.setProperty("--from", `${Math.min(at(0), at(score))}%`);
  line.style.setProperty("--length", `${Math.abs(at(score) - at(0))}%`);
  return [h("b", { title: word }, ...nameNodes(named)), line, h("span", {}, number)];
}
