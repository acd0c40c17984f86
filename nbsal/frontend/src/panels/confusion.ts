// Labels by predictions: a press on a pair shows its texts, a second press all of them. Of many classes, the mistakes.

import type { Context } from "../page/context";
import type { Confusion, ConfusionCell, CorpusTraits } from "../page/corpus-traits";
import { closest, consume, h, panel } from "../page/dom";
import { nextItem } from "../page/keyboard";

export function confusionPanel({ get, set, on, live, signal }: Context<CorpusTraits>) {
  const body = h("div", { class: "nbsal-pairs" });
  const { node, heading, note } = panel("nbsal-confusion", body);
  let buttons: HTMLElement[] = [];
  let cells: ConfusionCell[] = [];
  let columns: string[] = [];
  let drawn = "";
  const isChosen = ({ pair }: ConfusionCell) => JSON.stringify(get("cell")) === JSON.stringify(pair);
  const drawChosen = () => {
    const chosen = cells.findIndex(isChosen);
    for (const [i, button] of buttons.entries()) {
      if (live) button.setAttribute("aria-pressed", String(i === chosen));
      button.tabIndex = i === Math.max(0, chosen) ? 0 : -1;
    }
  };
  const onClick = (event: MouseEvent) => {
    const cell = cells[buttons.indexOf(closest(event, "button") as HTMLElement)];
    if (cell) set({ cell: isChosen(cell) ? null : cell.pair });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const line = (from: number, down: number) => {
      const to = from + down * (columns.length || 1);
      return to < 0 || to >= buttons.length ? from : to;
    };
    const next = nextItem(event, buttons.indexOf(event.target as HTMLElement), buttons.length, { line });
    if (next === null) return;
    buttons[next].focus();
    consume(event);
  };
  body.addEventListener("click", onClick, { signal });
  body.addEventListener("keydown", onKeyDown, { signal });
  on(["cell"], drawChosen);

  const build = (confusion: Confusion) => {
    buttons = cells.map(() => h(live ? "button" : "span", { class: "nbsal-pair" }));
    const width = columns.length;
    if (!width) return body.replaceChildren(...cells.map(({ pair }, i) => listed(pair, buttons[i])));
    const name = (text: string, scope: string) => h("th", { scope, title: text, dir: "auto" }, text);
    const head = h("tr", {}, h("td"), ...columns.map((column) => name(column, "col")));
    const rows = columns.map((label, row) => {
      const values = buttons.slice(row * width, (row + 1) * width).map((button) => h("td", {}, button));
      return h("tr", {}, name(label, "row"), ...values);
    });
    const table = { "aria-label": confusion.note };
    body.replaceChildren(h("table", table, h("thead", {}, head), h("tbody", {}, ...rows)));
  };
  return {
    node,
    draw() {
      const confusion = get("_confusion");
      node.hidden = !confusion.cells?.length;
      if (!confusion.cells) return;
      [cells, columns] = [confusion.cells, confusion.columns];
      heading.textContent = confusion.heading;
      note.textContent = confusion.note;
      const key = JSON.stringify([columns, cells.map(({ pair }) => pair)]);
      if (key !== drawn) build(confusion);
      drawn = key;
      for (const [i, { text, wrong, share, name }] of cells.entries()) {
        buttons[i].textContent = text;
        buttons[i].setAttribute("aria-label", name);
        buttons[i].classList.toggle("nbsal-error-cell", wrong && share > 0);
        buttons[i].style.setProperty("--share", String(share));
      }
      drawChosen();
    },
  };
}

/** A pair of a list. */
const listed = ([label, prediction]: [string, string], button: HTMLElement) =>
  h(
    "div",
    {},
    h(
      "span",
      { class: "nbsal-name", title: `${label} \u2192 ${prediction}`, dir: "auto" },
      `${label} \u2192 ${prediction}`,
    ),
    button,
  );
