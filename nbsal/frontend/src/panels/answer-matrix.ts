// Phrases of the reply by sources: shares that sum to 100 % in each row; a row is chosen by click or by keys.

import { closest, consume, h, uniqueId } from "../page/dom";
import { clamp, nextItem } from "../page/keyboard";
import { applyShade, type ColourScale, shade } from "../text/colour";

interface Table {
  rows: string[];
  columns: { short: string; name: string }[];
  shares: number[][];
  /** The shares in words: in the cell, and where it is pointed at. */
  cells: [string, string][][];
  finding: string;
  unit: string;
}

interface Actions {
  /** Choose a row, or none. */
  select(row: number | null): void;
  /** Say what is under the pointer or the keys. */
  say(words: (Node | string)[] | null): void;
}

export function shareMatrix({ signal }: { signal: AbortSignal }, { select, say }: Actions) {
  const uid = uniqueId();
  let table: Table = { rows: [], columns: [], shares: [], cells: [], finding: "", unit: "" };
  let active: [number, number] = [0, 0];
  let selected: Set<number> = new Set();
  const [heading, unit] = [h("h3"), h("span")];
  const cellId = ([row, column]: [number, number]) => `${uid}-${row}-${column}`;

  const describe = (row: number, column: number) => {
    return [h("b", {}, table.rows[row]), ` \u00b7 ${table.cells[row][column][1]}`];
  };
  const activate = (cell: [number, number]) => {
    grid.querySelector(".nbsal-active")?.classList.remove("nbsal-active");
    active = cell;
    const element = grid.querySelector(`[data-row="${cell[0]}"][data-column="${cell[1]}"]`);
    element?.classList.add("nbsal-active");
    element?.scrollIntoView({ block: "nearest", inline: "nearest" });
    grid.setAttribute("aria-activedescendant", cellId(cell));
    if (table.rows.length) say(describe(...cell));
  };
  const toggle = (row: number) => select(selected.size === 1 && selected.has(row) ? null : row);
  const at = (event: Event) => closest(event, "[data-row]");
  const onClick = (event: MouseEvent) => {
    const row = at(event)?.dataset.row;
    if (row !== undefined) toggle(Number(row));
  };
  const onPointerOver = (event: PointerEvent) => {
    const { row, column } = at(event)?.dataset ?? {};
    say(row === undefined || column === undefined ? null : describe(Number(row), Number(column)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { key } = event;
    const [row, column] = active;
    const line = (from: number, step: 1 | -1) => clamp(from + step, table.rows.length);
    if (key === "Enter" || key === " ") toggle(row);
    else if (key === "Escape") select(null);
    else if (key === "ArrowUp" || key === "ArrowDown") activate([line(row, key === "ArrowDown" ? 1 : -1), column]);
    else {
      const next = nextItem(event, column, table.columns.length);
      if (next === null) return;
      activate([row, next]);
    }
    consume(event);
  };
  const grid = h("div", {
    class: "nbsal-matrix",
    role: "grid",
    tabindex: 0,
    "aria-label": "Phrases of the reply by sources, in percent",
    signal,
    click: onClick,
    pointerover: onPointerOver,
    pointerleave: () => say(null),
    keydown: onKeyDown,
    focus: () => activate(active),
    blur: () => say(null),
  });
  const node = h(
    "section",
    { class: "nbsal-panel nbsal-evidence" },
    h("header", { role: "presentation" }, heading, unit),
    grid,
  );
  const drawSelection = () => {
    for (const [i, row] of [...grid.children].slice(1).entries())
      row.setAttribute("aria-selected", String(selected.has(i)));
  };

  return {
    node,
    draw(next: Table, scale: ColourScale) {
      table = next;
      active = [clamp(active[0], next.rows.length), clamp(active[1], next.columns.length)];
      heading.textContent = next.finding;
      unit.textContent = next.unit;
      grid.style.setProperty("--columns", String(next.columns.length));
      const head = next.columns.map(({ short, name }) =>
        h("span", { class: "nbsal-matrix-head", role: "columnheader", title: name }, short),
      );
      const rows = next.shares.map((shares, row) => {
        const cells = shares.map((share, column) => {
          const [number] = next.cells[row][column];
          const cell = h(
            "span",
            {
              class: "nbsal-cell",
              role: "gridcell",
              id: cellId([row, column]),
              "data-row": row,
              "data-column": column,
              "aria-label": number ? null : "under 2",
            },
            number,
          );
          applyShade(cell, shade(share, 1, { ...scale, clip: 1 }));
          return cell;
        });
        const name = h(
          "span",
          { class: "nbsal-matrix-row", role: "rowheader", "data-row": row, dir: "auto" },
          next.rows[row],
        );
        return h("div", { role: "row" }, name, ...cells);
      });
      grid.replaceChildren(h("div", { role: "row" }, h("span", { role: "presentation" }), ...head), ...rows);
      drawSelection();
    },
    /** Band some rows. */
    mark(rows: Set<number>) {
      selected = rows;
      drawSelection();
    },
  };
}
