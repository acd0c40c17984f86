// A table of explained texts, sorted and filtered; one of them is opened below.

import { LINEAR } from "../colour";
import { bind, type Context } from "../context";
import { choice, toggle } from "../controls";
import { closest, debounce, h, sanitize, stopPropagation, toolbar } from "../dom";
import { excerpt } from "../excerpt";
import { explanationReader, layoutCache, specialTokens } from "../explanation";
import { formatPercent } from "../format";
import { legend } from "../legend";
import { mount } from "../mount";
import { scoredText } from "../scored-text";
import type { BrowseTraits, Column, TablePage, TableRow } from "../traits";

type BrowseContext = Context<BrowseTraits>;

const TYPING_DELAY = 300; // ms without a key after which a filter applies
const COLUMNS: [Column, string][] = [
  ["number", "No."],
  ["text", "Text"],
  ["prediction", "Prediction"],
  ["confidence", "Confidence"],
  ["label", "Label"],
  ["top", "Top token"],
];

export default mount<BrowseTraits>("browse", (context) => {
  const { get, root, on } = context;
  const [texts, pages, classes, opened] = [table(context), pager(context), classFilter(context), openedText(context)];
  const misclassified = toggle<boolean>(bind(context, "wrong"), "Misclassified only", false, true);
  const draw = () => {
    const page = get("_table");
    if (page.rows) {
      texts.draw(page);
      pages.draw(page);
      classes.draw(page);
      misclassified.hidden = !page.judged;
    }
    opened.draw();
  };
  on(["_rev"], draw);
  root.append(
    toolbar(classes.node, misclassified, tokenFilter(context)),
    h("div", { class: "nbsal-scroll" }, texts.node),
    pages.node,
    opened.node,
  );
  draw();
});

/** The table of one page: a click on a heading sorts by it, a click on a row opens its text. */
function table({ get, set, live, signal }: BrowseContext) {
  const headings = h("tr");
  const body = h("tbody");
  const onBodyClick = (event: MouseEvent) => {
    const row = closest(event, "tr");
    const number = Number(row?.dataset.number);
    if (live && row) set({ opened: get("opened") === number ? null : number });
  };
  const onHeadingClick = (event: MouseEvent) => {
    const column = closest(event, "button")?.dataset.column;
    if (!column) return;
    set({ sort: column as Column, descending: get("sort") === column && !get("descending") });
  };
  body.addEventListener("click", onBodyClick, { signal });
  headings.addEventListener("click", onHeadingClick, { signal });

  const drawHeading = ([name, title]: [Column, string]) => {
    const sorted = get("sort") === name;
    const direction = get("descending") ? "descending" : "ascending";
    const arrow = { ascending: " \u25b4", descending: " \u25be" }[direction];
    const button = h("button", { "data-column": name, disabled: !live }, title + (sorted ? arrow : ""));
    return h("th", { scope: "col", "aria-sort": sorted ? direction : "none" }, button);
  };
  const drawRow = ({ number, prediction, confidence, label, wrong, top, pieces }: TableRow, columns: Column[]) => {
    const isOpen = get("opened") === number;
    const state = { "aria-label": `Open text ${number}`, "aria-expanded": String(isOpen), disabled: !live };
    const cells: Record<Column, Node | string> = {
      number: h("button", state, String(number)),
      text: excerpt(pieces),
      prediction,
      confidence: confidence === null ? "" : formatPercent(confidence),
      label: wrong ? h("span", { class: "nbsal-misclassified" }, `\u2717 ${label}`) : (label ?? ""),
      top,
    };
    const columnCells = columns.map((name) => h("td", { class: `nbsal-cell-${name}` }, cells[name]));
    return h("tr", { "data-number": number, "aria-current": isOpen ? "true" : null }, ...columnCells);
  };
  const head = h("thead", {}, headings);
  return {
    node: h("table", { class: "nbsal-table", "aria-label": "Texts" }, head, body),
    draw({ rows, judged }: TablePage) {
      const focusedRow = body.querySelector(":focus")?.closest("tr")?.dataset.number;
      const focusedColumn = headings.querySelector<HTMLElement>(":focus")?.dataset.column;
      const columns = COLUMNS.filter(([name]) => name !== "label" || judged);
      const names = columns.map(([name]) => name);
      headings.replaceChildren(...columns.map(drawHeading));
      body.replaceChildren(...rows.map((row) => drawRow(row, names)));
      if (focusedRow) body.querySelector<HTMLElement>(`[data-number="${focusedRow}"] button`)?.focus();
      if (focusedColumn) headings.querySelector<HTMLElement>(`[data-column="${focusedColumn}"]`)?.focus();
    },
  };
}

function pager({ get, set, live, signal }: BrowseContext) {
  const turn = (by: number) => () => set({ page: Math.max(0, (get("_table").page ?? 0) + by) });
  const previous = h("button", { "aria-label": "Previous page", signal, click: turn(-1) }, "\u2039");
  const next = h("button", { "aria-label": "Next page", signal, click: turn(1) }, "\u203a");
  const position = h("output");
  return {
    node: toolbar(previous, position, next),
    draw({ page, pages, count }: TablePage) {
      position.textContent = `${count}, page ${page + 1} of ${pages}`;
      previous.disabled = !live || page === 0;
      next.disabled = !live || page + 1 >= pages;
    },
  };
}

/** A filter by predicted class; classes become known as texts are explained. */
function classFilter(context: BrowseContext) {
  const node = h("span");
  let drawn = "";
  return {
    node,
    draw({ labels }: TablePage) {
      if (JSON.stringify(labels) === drawn) return;
      drawn = JSON.stringify(labels);
      const options = [{ value: null, name: "All" }, ...labels.map((name) => ({ value: name, name }))];
      node.replaceChildren(choice(bind(context, "label"), "Predicted class", () => options));
    },
  };
}

/** A filter by a token or word. */
function tokenFilter({ get, mirror, set, live, signal }: BrowseContext) {
  const onInput = debounce(() => set({ token: input.value }), TYPING_DELAY, signal);
  const properties = { type: "search", placeholder: "any", disabled: !live, "data-trait": "token" };
  const input = h("input", { ...properties, signal, input: onInput, keydown: stopPropagation });
  mirror(["token"], () => {
    if (!input.matches(":focus")) input.value = get("token");
  });
  return h("label", {}, "Contains the word", input);
}

/** The text that is opened, with its scores. */
function openedText(context: BrowseContext) {
  const { get } = context;
  const read = explanationReader(context);
  const text = scoredText(context);
  const layOut = layoutCache(() => "token", [text]);
  const colours = legend();
  const title = h("h4", { class: "nbsal-title" });
  const node = h("div", {}, title, text.node, text.readout, colours.node);
  return {
    node,
    draw() {
      const explanation = read();
      node.hidden = !explanation;
      if (!explanation) return;
      layOut(explanation);
      const [row] = explanation.rows;
      const { largest } = text.paint(row);
      const negative = row.some((score) => score < 0);
      colours.draw(largest, LINEAR, negative, specialTokens(explanation.tokens, row));
      title.textContent = sanitize(`Text ${get("opened")}: ${explanation.caption}`);
    },
  };
}
