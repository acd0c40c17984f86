// The rows of a table of texts: one Tab stop, walked by the arrow keys; a row is redrawn only when it has changed.

import type { Context } from "../page/context";
import type { CorpusTraits, TablePage, TableRow } from "../page/corpus-traits";
import { closest, consume, h } from "../page/dom";
import type { ColourScale } from "../text/colour";
import { excerpt } from "../text/excerpt";

interface Drawn {
  node: HTMLTableRowElement;
  /** What it was drawn from. */
  key: string;
}

/** @param turn goes so many pages on; whether there is such a page */
export function tableRows({ get, set, live, signal }: Context<CorpusTraits>, turn: (by: number) => boolean) {
  const drawn = new Map<number, Drawn>();
  let numbers: number[] = []; // on the page
  let active = 0;
  let arriving: "first" | "last" | null = null; // where the focus goes when the next page is drawn
  const node = h("tbody", { role: "rowgroup" });
  const button = (row: number) => drawn.get(numbers[row])?.node.querySelector("button");

  const open = (number: number | null) => set({ opened: number });
  const focus = (row: number) => {
    button(active)?.setAttribute("tabindex", "-1");
    active = row;
    button(row)?.setAttribute("tabindex", "0");
    button(row)?.focus();
  };
  /** Go to a row of this page or of the next one; if a text is open, open the one there. */
  const walkTo = (row: number) => {
    if (row < 0 || row >= numbers.length) {
      if (turn(row < 0 ? -1 : 1)) arriving = row < 0 ? "last" : "first";
      return;
    }
    focus(row);
    if (get("opened") !== null) open(numbers[row]);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!(event.target instanceof HTMLButtonElement) || !numbers.length) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") walkTo(active + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Home" || event.key === "End") walkTo(event.key === "Home" ? 0 : numbers.length - 1);
    else if (event.key === "PageDown" || event.key === "PageUp") {
      if (turn(event.key === "PageDown" ? 1 : -1)) arriving = "first";
    } else if (event.key === "Escape") open(null);
    else return;
    consume(event);
  };
  const onClick = (event: MouseEvent) => {
    const number = Number(closest(event, "[data-number]")?.dataset.number ?? -1);
    if (!live || number < 0) return;
    focus(numbers.indexOf(number));
    open(get("opened") === number ? null : number);
  };
  node.addEventListener("keydown", onKeyDown, { signal });
  node.addEventListener("click", onClick, { signal });

  const drawOpened = () => {
    for (const [number, { node: row }] of drawn) {
      row.setAttribute("aria-current", String(get("opened") === number));
      row.querySelector("button")?.setAttribute("aria-expanded", String(get("opened") === number));
    }
  };
  const rowFor = (row: TableRow, scale: ColourScale) => {
    const key = JSON.stringify([row, scale]);
    const before = drawn.get(row.number);
    if (before?.key === key) return before.node;
    const focused = before?.node.contains(document.activeElement);
    const entry = { node: drawRow(row, scale, live), key };
    before?.node.replaceWith(entry.node);
    drawn.set(row.number, entry);
    if (focused) entry.node.querySelector("button")?.focus();
    return entry.node;
  };
  return {
    node,
    /** The row of a text, if it is on the page. */
    row: (number: number) => (numbers.includes(number) ? drawn.get(number)?.node : undefined),
    drawOpened,
    draw({ rows }: TablePage, scale: ColourScale, empty: HTMLElement) {
      const focused = numbers[active];
      numbers = rows.map(({ number }) => number);
      const nodes = rows.map((row) => rowFor(row, scale));
      for (const number of [...drawn.keys()]) {
        if (numbers.includes(number)) continue;
        drawn.get(number)?.node.remove();
        drawn.delete(number);
      }
      for (const [i, row] of nodes.entries()) {
        const next = textRow(i ? nodes[i - 1].nextElementSibling : node.firstElementChild);
        if (next !== row) node.insertBefore(row, next); // rows that are in place already keep the focus
      }
      empty.hidden = rows.length > 0;
      active = Math.max(0, numbers.indexOf(focused));
      for (const [i] of nodes.entries()) button(i)?.setAttribute("tabindex", i === active ? "0" : "-1");
      drawOpened();
      if (!arriving || !rows.length) return;
      const row = arriving === "first" ? 0 : rows.length - 1;
      arriving = null;
      walkTo(row);
    },
  };
}

/** That row, or the next one if it holds the opened text. */
const textRow = (row: Element | null) => (row?.classList.contains("nbsal-under") ? row.nextElementSibling : row);

function drawRow(
  { number, prediction, name, share = "", label, wrong, top, against, pieces, remark }: TableRow,
  scale: ColourScale,
  live: boolean,
) {
  const verdict = h("span", {}, h("span", { class: "nbsal-name", title: prediction }, name), ` ${share}`);
  const mistake = wrong && h("small", { title: `labelled ${label}` }, h("b", {}, "\u2717"), ` labelled ${label}`);
  const said = remark && h("small", { class: remark[0] && `nbsal-${remark[0]}` }, remark[1]);
  const button = live
    ? h("button", { "aria-label": `Open text ${number}`, tabindex: -1 }, String(number))
    : String(number);
  const cell = (kind: string, ...content: (Node | string | false | null | undefined)[]) =>
    h("td", { class: `nbsal-cell-${kind}`, role: "cell" }, ...content);
  return h(
    "tr",
    { role: "row", "data-number": number, class: prediction === undefined ? "nbsal-waiting" : "" },
    cell("number", button),
    cell("text", h("span", { class: "nbsal-lines" }, excerpt(pieces, scale)), said),
    cell("prediction", verdict, mistake),
    cell("top", h("span", { class: `nbsal-name${against ? " nbsal-word-against" : ""}`, title: top }, top)),
  );
}
