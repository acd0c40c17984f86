// The table of texts, sorted and filtered; one of them is opened beside it, or under its row.

import { colourScale, displayMenu, SHADING, segments } from "../controls/display";
import { saveMenu } from "../controls/save";
import { bind, type Context } from "../page/context";
import type { Column, CorpusTraits, TablePage } from "../page/corpus-traits";
import { closest, debounce, h, link, onAbort, stopPropagation } from "../page/dom";
import { phraseNodes } from "../text/headline";
import { openedText } from "../text/opened-text";
import { tableRows } from "./table-rows";

type CorpusContext = Context<CorpusTraits>;

const TYPING_DELAY = 300; // ms without a key after which a filter applies
const WIDE = 900; // pixels from which the opened text stands beside the table
const MOST_BUTTONS = 36; // characters of all classes up to which each has a button
const HEADINGS: [Column, string][] = [
  ["number", "No."],
  ["text", "Text"],
  ["confidence", "Prediction"],
  ["top", "Ranked first"],
];
const ARRANGING = ["sort", "descending", "label", "wrong", "token", "cell", "page"] as const;
const NO_FILTERS = { label: null, wrong: false, token: "", cell: null };

/** @param beside whether the opened text has the column beside the table where there is room */
export function textTable(context: CorpusContext, beside: boolean) {
  const { get, on } = context;
  const [heading, sentence] = [h("h3"), h("p", { "aria-live": "polite" })];
  const [filters, texts, opened] = [filterRow(context), table(context), openedText(context)];
  const order = orderKeeper(context, texts.node, () => draw());
  const pages = pager(context, order.node);
  const place = besideOrUnder(context, opened.node, texts.row, beside);
  const draw = () => {
    const page = get("_table");
    if (!page.rows) return;
    node.classList.toggle("nbsal-no-texts", !page.total); // as those of a finished cloud
    heading.replaceChildren(...phraseNodes(page.heading));
    sentence.replaceChildren(...phraseNodes(page.sentence));
    sentence.hidden = !page.sentence.length;
    filters.draw(page);
    if (order.mayDraw(page)) texts.draw(page);
    pages.draw(page);
    place(opened.draw());
  };
  on([...SHADING], draw);
  on(["opened"], () => {
    texts.drawOpened();
    place(opened.draw());
  });
  const node = h("section", { class: "nbsal-texts" }, heading, sentence, filters.node, texts.node, pages.node);
  return { node, draw };
}

/** The filters as headings of the table: all texts or errors, a class, a word. */
function filterRow(context: CorpusContext) {
  const { get, set, mirror, live, signal } = context;
  const errors = segments<boolean>(bind(context, "wrong"), "Show", [
    [false, "All"],
    [true, "Errors"],
  ]);
  const classes = h("span", { class: "nbsal-class-filter" });
  const onInput = debounce(() => set({ token: input.value }), TYPING_DELAY, signal);
  const onKeyDown = (event: KeyboardEvent) => {
    stopPropagation(event);
    if (event.key === "Escape") set({ token: "" });
    if (event.key === "Enter") set({ token: input.value });
  };
  const name = "Contains";
  const properties = { type: "search", placeholder: `${name}\u2026`, "aria-label": name, "data-trait": "token" };
  const input = h("input", { ...properties, signal, input: onInput, keydown: onKeyDown });
  mirror(["token"], () => {
    if (!input.matches(":focus") || !get("token")) input.value = get("token");
  });
  let listed = "";
  return {
    node: h("div", { class: "nbsal-tools nbsal-needs-python", hidden: !live }, errors, classes, input),
    draw({ labels, judged, counts }: TablePage) {
      errors.hidden = !judged;
      for (const [i, label] of ["All", "Errors"].entries()) errors.children[i].textContent = `${label} ${counts[i]}`;
      if (JSON.stringify(labels) !== listed) {
        listed = JSON.stringify(labels);
        classes.replaceChildren(classFilter(context, labels));
      }
    },
  };
}

/** A button for each class, or a list if there are many. */
function classFilter(context: CorpusContext, labels: string[]) {
  const { get, set, mirror, signal } = context;
  const options: [string | null, string][] = [
    [null, "Any prediction"],
    ...labels.map((name): [string, string] => [name, name]),
  ];
  if (labels.join("").length <= MOST_BUTTONS) return segments(bind(context, "label"), "Predicted class", options);
  const onChange = (): void => set({ label: options[select.selectedIndex][0] });
  const elements = options.map(([, words]) => h("option", {}, words));
  const properties = { "aria-label": "Predicted class", "data-trait": "label" };
  const select = h("select", { ...properties, signal, change: onChange }, ...elements);
  mirror(["label"], () => {
    select.selectedIndex = options.findIndex(([name]) => name === get("label"));
  });
  return select;
}

/** The table of one page: a click on a heading sorts by it, a click on a row opens its text. */
function table(context: CorpusContext) {
  const { get, set, live, signal } = context;
  const turn = (by: number) => turnPage(context, by);
  const rows = tableRows(context, turn);
  const headings = h("tr", { role: "row" });
  const clear = link(signal, "Clear the filters", () => set(NO_FILTERS));
  const unmatched = h("span");
  const empty = h("p", { class: "nbsal-empty", hidden: true }, unmatched, " ", clear);
  const onClick = (event: MouseEvent) => {
    const column = closest(event, "button")?.dataset.column as Column | undefined;
    if (!column) return;
    const first = column === "confidence"; // the most confident come first
    set({ sort: column, descending: get("sort") === column ? !get("descending") : first });
  };
  headings.addEventListener("click", onClick, { signal });
  const cells = HEADINGS.map(([column, title]) => {
    const arrow = h("span", { "aria-hidden": "true" });
    const sorts = { class: "nbsal-needs-python", "data-column": column };
    const button = live ? h("button", sorts, title, " ", arrow) : h("span", {}, title, " ", arrow);
    return { column, arrow, cell: h("th", { scope: "col", role: "columnheader" }, button) };
  });
  headings.append(...cells.map(({ cell }) => cell));
  const room = h("div", { class: "nbsal-room", "aria-hidden": "true" });
  cells[2].cell.append(room);
  const drawHeadings = () => {
    const sorted = ["prediction", "label"].includes(get("sort")) ? "confidence" : get("sort");
    const direction = get("descending") ? "descending" : "ascending";
    for (const { column, arrow, cell } of cells) {
      cell.setAttribute("aria-sort", column === sorted ? direction : "none");
      arrow.textContent = column !== sorted ? "" : direction === "ascending" ? "\u2191" : "\u2193";
    }
  };
  const head = h("thead", { role: "rowgroup" }, headings);
  const properties = { class: "nbsal-table", role: "table", "aria-label": "Texts" };
  const node = h("div", {}, h("table", properties, head, rows.node), empty);
  return {
    node,
    row: rows.row,
    drawOpened: rows.drawOpened,
    draw(page: TablePage) {
      node.classList.toggle("nbsal-judged", page.judged);
      drawHeadings();
      unmatched.textContent = page.hints.empty;
      room.replaceChildren(...page.labels.slice(0, 20).map((label) => widest(label, page.judged)));
      rows.draw(page, colourScale(context), empty);
    },
  };
}

/** The widest content that a class may have in its column, which keeps its width while texts are explained. */
const widest = (label: string, judged: boolean) =>
  h(
    "div",
    { class: "nbsal-cell-prediction" },
    h("span", {}, h("span", { class: "nbsal-name" }, label), " 100.0\u202f%"),
    judged && h("small", {}, `\u2717 labelled ${label}`),
  );

/** Go so many pages on; whether there is such a page. */
function turnPage({ get, set, live }: CorpusContext, by: number) {
  const { page = 0, pages = 1 } = get("_table");
  const next = page + by;
  if (!live || next < 0 || next >= pages) return false;
  set({ page: next });
  return true;
}

function pager(context: CorpusContext, notice: HTMLElement) {
  const { live, signal } = context;
  const button = (label: string, sign: string, by: number) =>
    h(
      "button",
      {
        class: "nbsal-button nbsal-needs-python",
        "aria-label": label,
        hidden: !live,
        signal,
        click: () => turnPage(context, by),
      },
      sign,
    );
  const [previous, next] = [button("Previous page", "\u2039", -1), button("Next page", "\u203a", 1)];
  const position = h("output");
  const grow = h("span", { class: "nbsal-grow" });
  return {
    node: h(
      "div",
      { class: "nbsal-tools" },
      previous,
      position,
      next,
      notice,
      grow,
      h("span", { class: "nbsal-tools" }, displayMenu(context), saveMenu(context)),
    ),
    draw({ page, pages, position: words, elsewhere }: TablePage) {
      position.textContent = live || !elsewhere ? words : `${words} \u00b7 ${elsewhere}`;
      previous.disabled = page === 0;
      next.disabled = page + 1 >= pages;
    },
  };
}

/** While texts are explained, rows that are being read stay where they are until the reader asks for the new order. */
function orderKeeper({ on, signal }: CorpusContext, table: HTMLElement, draw: () => void) {
  let drawn: TablePage | null = null;
  let arranged = true; // the reader has sorted, filtered or turned the page since
  let reads = false; // the pointer or the focus was in the rows
  for (const event of ["pointerover", "focusin"]) table.addEventListener(event, () => (reads = true), { signal });
  const show = () => {
    arranged = true;
    draw();
  };
  const button = h("button", { class: "nbsal-link", signal, click: show }, "Put in order");
  const news = h("span");
  const node = h("span", { class: "nbsal-quiet", hidden: true }, news, " ", button);
  on([...ARRANGING], () => {
    arranged = true;
  });
  /** Whether a page leaves every row where it is. */
  const keepsRows = ({ rows }: TablePage, before: TablePage) =>
    before.explained === before.total || before.rows.every(({ number }, i) => rows[i]?.number === number);
  return {
    node,
    /** Whether a page may be drawn now. */
    mayDraw(page: TablePage) {
      const isDone = page.explained === page.total && !reads;
      const may = arranged || isDone || !drawn || page === drawn || keepsRows(page, drawn);
      node.hidden = may;
      news.textContent = page.hints.order;
      if (may) [drawn, arranged] = [page, false];
      return may;
    },
  };
}

/** Put the opened text beside the table, or under its row where there is no room for that. */
function besideOrUnder(
  { root, side, live, get, signal }: CorpusContext,
  node: HTMLElement,
  rowOf: (number: number) => HTMLElement | undefined,
  mayBeBeside: boolean,
) {
  const hint = h("p", { class: "nbsal-quiet" });
  const under = h("tr", { class: "nbsal-under", role: "row" }, h("td", { colspan: 4, role: "cell" }));
  let opened: number | null = null;
  let wide: boolean | null = null;
  const place = () => {
    const row = opened === null ? undefined : rowOf(opened);
    const beside = (wide && mayBeBeside) || !row; // a text of another page stands below the table
    if (beside || opened === null) under.remove();
    else if (row?.nextElementSibling !== under) row?.after(under);
    const target = beside || opened === null ? side : (under.firstElementChild as HTMLElement);
    if (opened === null && !mayBeBeside) return side.replaceChildren();
    const content = opened === null ? hint : node;
    if (content.parentElement !== target) target.replaceChildren(content);
    if (target !== side) side.replaceChildren();
    side.classList.toggle("nbsal-hint", opened === null);
  };
  const observer = new ResizeObserver(() => {
    const now = root.clientWidth >= WIDE;
    if (now === wide) return;
    wide = now;
    place();
  });
  observer.observe(root);
  onAbort(signal, () => observer.disconnect());
  return (number: number | null) => {
    opened = number;
    hint.textContent = (live && get("_table").hints?.closed) || "";
    place();
  };
}
