// @ts-check
// Heat: a grid of shaded cells that scrolls sideways; only the columns in sight are in the page.

import { UNSHADED } from "./colour.js";
import { ended, h, shown, spoken, taken, unique } from "./dom.js";
import { step } from "./keys.js";

/** @typedef {import("./mount.js").Context} Context */
/**
 * @typedef {{ rows: string[], columns: string[], shade: (row: number, column: number) => { css: string, against: boolean },
 *   say: (row: number, column: number) => string }} Sheet
 */

const WIDE = 22; // pixels of a cell, as in heat.css
const AHEAD = 12; // columns drawn beyond the edge

/**
 * @param {Context} context
 * @param {string} label
 * @param {{ row: (row: number) => void, column: (column: number, event: { shiftKey: boolean }) => void,
 *   over: (column: number | null) => void }} act what choosing a row, choosing a column and pointing at one do
 */
export function heat({ signal }, label, act) {
  const uid = unique();
  /** @type {Sheet} */ let sheet = { rows: [], columns: [], shade: () => UNSHADED, say: () => "" };
  let [first, last] = [0, 0];
  let active = { row: 0, column: 0 };
  let chosen = -1;
  /** @type {Set<number>} */ let marked = new Set();

  const said = spoken();

  const id = (/** @type {number} */ row, /** @type {number} */ column) => `${uid}-${row}-${column}`;
  const cellAt = (/** @type {{ row: number, column: number }} */ { row, column }) =>
    /** @type {HTMLElement | null} */ (box.querySelector(`[data-row="${row}"][data-column="${column}"]`));

  const window = () => {
    const inSight = Math.ceil(box.clientWidth / WIDE) || 60;
    const start = Math.max(0, Math.floor(box.scrollLeft / WIDE) - AHEAD);
    return [start, Math.min(sheet.columns.length, start + inSight + 2 * AHEAD)];
  };
  const line = (/** @type {number} */ row) => {
    const cells = h("div", { class: "nbsal-cells", role: "presentation" });
    cells.style.paddingLeft = `${first * WIDE}px`;
    cells.style.width = `${sheet.columns.length * WIDE}px`;
    for (let column = first; column < last; column++) {
      const { css, against } = row < 0 ? UNSHADED : sheet.shade(row, column);
      const cell = h(
        "span",
        {
          class: `nbsal-${row < 0 ? "column" : "cell"}${against ? " nbsal-against" : ""}`,
          role: row < 0 ? "columnheader" : "gridcell",
          id: row < 0 ? null : id(row, column),
          "data-row": row,
          "data-column": column,
          "aria-selected": marked.has(column) ? "true" : null,
        },
        row < 0 && h("span", {}, sheet.columns[column]),
      );
      cell.style.backgroundColor = css;
      cells.append(cell);
    }
    const name = h("span", { class: "nbsal-head", role: "rowheader", "data-row": row }, row < 0 ? "" : sheet.rows[row]);
    return h(
      "div",
      { class: "nbsal-row", role: "row", "aria-selected": row >= 0 && row === chosen ? "true" : null },
      name,
      cells,
    );
  };
  const draw = () => {
    [first, last] = window();
    box.setAttribute("aria-rowcount", String(sheet.rows.length + 1));
    box.setAttribute("aria-colcount", String(sheet.columns.length));
    box.replaceChildren(...Array.from({ length: sheet.rows.length + 1 }, (_, i) => line(i - 1)));
    cellAt(active)?.classList.add("nbsal-active");
  };
  const scrolled = () => {
    const [start, end] = window();
    if (start < first - AHEAD / 2 || end > last + AHEAD / 2 || (start === 0 && first > 0)) draw();
  };
  const activate = (/** @type {{ row: number, column: number }} */ place) => {
    cellAt(active)?.classList.remove("nbsal-active");
    active = place;
    const left = place.column * WIDE;
    if (left < box.scrollLeft) box.scrollLeft = left;
    const right = left + 5 * WIDE + 60 - box.clientWidth;
    if (right > box.scrollLeft) box.scrollLeft = right;
    scrolled();
    cellAt(active)?.classList.add("nbsal-active");
    box.setAttribute("aria-activedescendant", id(place.row, place.column));
    said.textContent = shown(sheet.say(place.row, place.column));
  };
  const at = (/** @type {Event} */ event) => {
    const found = /** @type {HTMLElement} */ (event.target).closest?.("[data-row]");
    if (!(found instanceof HTMLElement)) return null;
    return {
      row: Number(found.dataset.row),
      column: found.dataset.column === undefined ? -1 : Number(found.dataset.column),
    };
  };
  const clicked = (/** @type {MouseEvent} */ event) => {
    const place = at(event);
    if (!place) return;
    if (place.row >= 0) act.row(place.row);
    if (place.row < 0 && place.column >= 0) act.column(place.column, event);
    if (place.row >= 0 && place.column >= 0) activate(place);
  };
  const pointed = (/** @type {Event} */ event) => {
    const place = at(event);
    if (!place || place.column < 0) return;
    act.over(place.column);
    if (place.row >= 0) said.textContent = shown(sheet.say(place.row, place.column));
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const next = step(event, active.column, sheet.columns.length);
    const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (next !== null) activate({ row: active.row, column: next });
    else if (down) {
      const row = Math.max(0, Math.min(sheet.rows.length - 1, active.row + down));
      activate({ row, column: active.column });
    } else if (event.key === "Enter") act.row(active.row);
    else if (event.key === " ") act.column(active.column, event);
    else return;
    taken(event);
  };
  const box = h("div", {
    class: "nbsal-heat",
    role: "grid",
    tabindex: 0,
    "aria-label": label,
    signal,
    click: clicked,
    pointerover: pointed,
    pointerleave: () => act.over(null),
    keydown: pressed,
    focus: () => sheet.columns.length && activate(active),
    scroll: scrolled,
  });
  const resized = new ResizeObserver(scrolled);
  resized.observe(box);
  ended(signal, () => resized.disconnect());

  return {
    node: box,
    said,
    /** @param {Sheet} given @param {number} row the row that is chosen @param {Set<number>} columns those that are */
    draw(given, row, columns) {
      [sheet, chosen, marked] = [given, row, columns];
      active = {
        row: Math.min(active.row, given.rows.length - 1),
        column: Math.min(active.column, given.columns.length - 1),
      };
      draw();
    },
  };
}
