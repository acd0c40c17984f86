// The words of an audit: bars of what hiding each corrects and breaks, sorted by any column, and a press that hides them.

import { rowList } from "../controls/row-list";
import { stepper } from "../controls/stepper";
import { bind, type Context } from "../page/context";
import type { AuditTraits, TestedWord, TestedWords } from "../page/corpus-traits";
import { closest, h, panel, percent } from "../page/dom";

const MOST_TEXTS = 1000; // in which scores must name a word

export function testedWords(context: Context<AuditTraits>) {
  const { get, set, on, live, signal } = context;
  const readout = h("div", { class: "nbsal-readout", "aria-live": "polite" });
  let shown: TestedWords | null = null;
  let drawn = "";
  let rows: TestedWord[] = []; // in the order on display
  let sorted: [column: number, direction: number] | null = null;
  const picked = () => get("picked") ?? [];
  const describe = (row: number | null) => {
    const word = row === null ? undefined : rows[row];
    readout.replaceChildren(...(word ? [h("b", {}, word.name), word.line] : [shown?.hint ?? ""]));
  };
  const choose = (row: number, adds: boolean) => {
    if (!live) return describe(row);
    const { word } = rows[row];
    const [before, isPicked] = [picked(), picked().includes(word)];
    const next = isPicked ? before.filter((other) => adds && other !== word) : adds ? [...before, word] : [word];
    set({ picked: next, part: null, everywhere: false });
    list.activate(row);
    describe(row);
  };
  const list = rowList(signal, "Words, the most harmful first", "nbsal-audit-words", {
    choose,
    point: describe,
    walk(row) {
      describe(row);
      list.node.children[row].scrollIntoView({ block: "nearest" });
    },
    leave: () => live && set({ picked: [], everywhere: false }),
  });
  list.node.setAttribute("aria-multiselectable", "true");
  const rest = h("p", { class: "nbsal-quiet" });
  const titles = h("div", { class: "nbsal-audit-titles", signal, click: (event) => sortBy(event) });
  const hide = h("button", {
    class: "nbsal-button nbsal-needs-python",
    hidden: !live,
    signal,
    click: () => set({ everywhere: !get("everywhere") }),
  });
  const range = { step: 1, least: 1, most: MOST_TEXTS };
  const count = stepper(bind(context, "least"), "Minimum texts per word", ["Fewer texts", "More texts"], range);
  const { node, heading, note } = panel(
    "nbsal-tested",
    titles,
    list.node,
    rest,
    h("div", { class: "nbsal-read nbsal-small" }, readout),
    h("div", { class: "nbsal-tools" }, hide, count),
  );
  const drawPicked = () => {
    list.select((row) => picked().includes(rows[row].word));
    hide.setAttribute("aria-pressed", String(get("everywhere")));
  };
  on(["picked", "everywhere"], drawPicked);

  const drawRows = () => {
    if (!shown) return;
    rows = [...shown.rows];
    if (sorted) {
      const [column, direction] = sorted;
      rows.sort((a, b) => direction * compare(a.values[column], b.values[column]));
    }
    list.draw(rows.length, (row) => cells(rows[row]));
    for (const [i, title] of [...titles.children].entries()) {
      const arrow = sorted?.[0] !== i ? "" : sorted[1] > 0 ? "\u2191" : "\u2193";
      title.lastElementChild?.replaceChildren(arrow);
    }
    drawPicked();
  };
  const sortBy = (event: Event) => {
    const column = [...titles.children].indexOf(closest(event, "button") as HTMLElement);
    if (column < 0 || !shown) return;
    const first = typeof shown.rows[0]?.values[column] === "string" ? 1 : -1; // the largest numbers come first
    sorted = sorted?.[0] === column ? [column, -sorted[1]] : [column, first];
    drawRows();
  };
  return {
    node,
    draw() {
      const words = get("_words");
      node.hidden = !words.rows;
      if (!words.rows) return;
      hide.textContent = words.hide;
      hide.hidden = !live || !words.hide;
      count.hidden = !live || !words.tries;
      const key = JSON.stringify({ ...words, hide: "" });
      if (key === drawn) return drawPicked();
      [shown, drawn] = [words, key];
      heading.textContent = words.heading;
      heading.title = words.tip;
      note.textContent = words.note;
      rest.textContent = words.rest;
      titles.hidden = !words.rows.length;
      titles.replaceChildren(...words.columns.map((title) => h(title ? "button" : "span", {}, title, h("span"))));
      const { columns } = words;
      const widths = columns.map((title, i) =>
        i === 0 ? "9em" : title ? (i < 3 ? "6em" : "5.4em") : "minmax(16px, 1fr)",
      );
      node.style.setProperty("--columns", widths.join(" "));
      describe(null);
      drawRows();
    },
  };
}

const compare = (a: number | string | null, b: number | string | null) =>
  typeof a === "string" ? a.localeCompare(String(b)) : Number(a ?? 0) - Number(b ?? 0);

function cells({ word, name, kind, cells }: TestedWord) {
  const mark = kind && h("small", { title: kind.slice(2) }, kind[0]);
  const first = h("span", { class: "nbsal-audit-name" }, h("b", { title: word, dir: "auto" }, name), mark);
  return [first, ...cells.map((cell) => (typeof cell === "string" ? h("span", { title: cell }, cell) : bars(cell)))];
}

/** A bar for each model. */
function bars(cell: { left?: number[]; right?: number[] }) {
  const lines = (cell.left ?? cell.right ?? []).map((share) => h("i", { "--length": percent(share) }));
  return h("span", { class: cell.left ? "nbsal-audit-bars nbsal-breaks" : "nbsal-audit-bars" }, ...lines);
}
