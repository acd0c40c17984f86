// Phrases of the reply by sources: shares that sum to 100 % in each row; a row is chosen by click or by keys.

import { heatmap } from "../charts/heatmap";
import { h, panel } from "../page/dom";
import { type ColourScale, shade } from "../text/colour";
import { ranked } from "../text/marks";

const SIZES = { head: 160, least: 40, most: 66 };

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
  let table: Table = { rows: [], columns: [], shares: [], cells: [], finding: "", unit: "" };
  let selected = new Set<number>();
  const words = (row: number, column: number) => ` \u00b7 ${table.cells[row][column][1]}`;
  const label = "Phrases of the reply by sources, in percent";
  const toggle = (row: number) => select(selected.size === 1 && selected.has(row) ? null : row);
  const actions = {
    selectRow: toggle,
    selectColumn(column: number | null, row?: number) {
      if (column === null) select(null);
      else if (row !== undefined) toggle(row);
    },
    point: (cell: { row: number; column: number } | null) =>
      say(cell && cell.row >= 0 ? [h("b", {}, table.rows[cell.row]), words(cell.row, cell.column)] : null),
  };
  const grid = heatmap({ signal }, label, actions, SIZES);
  grid.node.classList.add("nbsal-matrix");
  const { node, heading, note } = panel("nbsal-evidence", grid.node);
  return {
    node,
    draw(next: Table, scale: ColourScale) {
      table = next;
      heading.textContent = next.finding;
      note.textContent = next.unit;
      grid.draw({
        rows: next.rows,
        columns: next.columns.map(({ short }) => short),
        titles: next.columns.map(({ name }) => name),
        groups: [],
        shade: (row, column) => shade(next.shares[row][column], 1, { ...scale, clip: 1 }),
        print: (row, column) => next.cells[row][column][0],
        describe: ({ row, column }) => next.rows[row] + words(row, column),
        ranked: (row) => ranked(next.shares[row].map(Math.abs)),
      });
    },
    /** Band some rows. */
    mark(rows: Set<number>) {
      selected = rows;
      grid.mark(rows, new Set(), null);
    },
  };
}
