// A grid of shaded cells that scrolls sideways; only the columns in sight are in the page.

import { type Shade, UNSHADED } from "./colour";
import { closest, consume, h, liveRegion, onAbort, sanitize, uniqueId } from "./dom";
import { clamp, nextItem } from "./keyboard";

interface Cell {
  row: number;
  column: number;
}

export interface Cells {
  rows: string[];
  columns: string[];
  shade(row: number, column: number): Shade;
  /** A cell in words. */
  describe(row: number, column: number): string;
}

interface Actions {
  selectRow(row: number): void;
  selectColumn(column: number): void;
  /** The column under the pointer, if any. */
  hoverColumn(column: number | null): void;
}

const CELL_WIDTH = 22; // pixels, as in heatmap.css
const OVERSCAN = 12; // columns drawn beyond the edges

export function heatmap({ signal }: { signal: AbortSignal }, label: string, actions: Actions) {
  const uid = uniqueId();
  const readout = liveRegion();
  let cells: Cells = { rows: [], columns: [], shade: () => UNSHADED, describe: () => "" };
  let [first, last] = [0, 0]; // the columns that are drawn
  let active: Cell = { row: 0, column: 0 };
  let selectedRow = -1;
  let selectedColumns = new Set<number>();

  const idOf = ({ row, column }: Cell) => `${uid}-${row}-${column}`;
  const elementOf = ({ row, column }: Cell) => node.querySelector(`[data-row="${row}"][data-column="${column}"]`);

  const visibleColumns = () => {
    const count = Math.ceil(node.clientWidth / CELL_WIDTH) || 60;
    const start = Math.max(0, Math.floor(node.scrollLeft / CELL_WIDTH) - OVERSCAN);
    return [start, Math.min(cells.columns.length, start + count + 2 * OVERSCAN)];
  };
  const drawCell = (row: number, column: number) => {
    const isHeader = row < 0;
    const { css, against } = isHeader ? UNSHADED : cells.shade(row, column);
    const cell = h(
      "span",
      {
        class: `nbsal-${isHeader ? "column" : "cell"}${against ? " nbsal-against" : ""}`,
        role: isHeader ? "columnheader" : "gridcell",
        id: isHeader ? null : idOf({ row, column }),
        "data-row": row,
        "data-column": column,
        "aria-selected": selectedColumns.has(column) ? "true" : null,
      },
      isHeader && h("span", {}, cells.columns[column]),
    );
    cell.style.backgroundColor = css;
    return cell;
  };
  /** A row; row -1 is that of the column headers. */
  const drawRow = (row: number) => {
    const line = h("div", { class: "nbsal-cells", role: "presentation" });
    line.style.paddingLeft = `${first * CELL_WIDTH}px`;
    line.style.width = `${cells.columns.length * CELL_WIDTH}px`;
    for (let column = first; column < last; column++) line.append(drawCell(row, column));
    const name = h("span", { class: "nbsal-head", role: "rowheader", "data-row": row }, row < 0 ? "" : cells.rows[row]);
    const selected = row >= 0 && row === selectedRow ? "true" : null;
    return h("div", { class: "nbsal-row", role: "row", "aria-selected": selected }, name, line);
  };
  const draw = () => {
    [first, last] = visibleColumns();
    node.setAttribute("aria-rowcount", String(cells.rows.length + 1));
    node.setAttribute("aria-colcount", String(cells.columns.length));
    node.replaceChildren(...Array.from({ length: cells.rows.length + 1 }, (_, i) => drawRow(i - 1)));
    elementOf(active)?.classList.add("nbsal-active");
  };
  const redrawIfNeeded = () => {
    const [start, end] = visibleColumns();
    if (start < first - OVERSCAN / 2 || end > last + OVERSCAN / 2 || (start === 0 && first > 0)) draw();
  };
  const describe = ({ row, column }: Cell) => {
    readout.textContent = sanitize(cells.describe(row, column));
  };
  const activate = (cell: Cell) => {
    elementOf(active)?.classList.remove("nbsal-active");
    active = cell;
    const left = cell.column * CELL_WIDTH;
    if (left < node.scrollLeft) node.scrollLeft = left;
    const right = left + 5 * CELL_WIDTH + 60 - node.clientWidth;
    if (right > node.scrollLeft) node.scrollLeft = right;
    redrawIfNeeded();
    elementOf(active)?.classList.add("nbsal-active");
    node.setAttribute("aria-activedescendant", idOf(cell));
    describe(cell);
  };
  /** The cell or header of an event; row -1 is that of column headers, column -1 that of row headers. */
  const cellOf = (event: Event): Cell | null => {
    const element = closest(event, "[data-row]");
    return element && { row: Number(element.dataset.row), column: Number(element.dataset.column ?? -1) };
  };
  const onClick = (event: Event) => {
    const cell = cellOf(event);
    if (!cell) return;
    if (cell.row >= 0) actions.selectRow(cell.row);
    else if (cell.column >= 0) actions.selectColumn(cell.column);
    if (cell.row >= 0 && cell.column >= 0) activate(cell);
  };
  const onPointerOver = (event: Event) => {
    const cell = cellOf(event);
    if (!cell || cell.column < 0) return;
    actions.hoverColumn(cell.column);
    if (cell.row >= 0) describe(cell);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const column = nextItem(event, active.column, cells.columns.length);
    const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (column !== null) activate({ row: active.row, column });
    else if (down) activate({ row: clamp(active.row + down, cells.rows.length), column: active.column });
    else if (event.key === "Enter") actions.selectRow(active.row);
    else if (event.key === " ") actions.selectColumn(active.column);
    else return;
    consume(event);
  };
  const node = h("div", {
    class: "nbsal-heatmap",
    role: "grid",
    tabindex: 0,
    "aria-label": label,
    signal,
    click: onClick,
    pointerover: onPointerOver,
    pointerleave: () => actions.hoverColumn(null),
    keydown: onKeyDown,
    focus: () => cells.columns.length && activate(active),
    scroll: redrawIfNeeded,
  });
  const resizeObserver = new ResizeObserver(redrawIfNeeded);
  resizeObserver.observe(node);
  onAbort(signal, () => resizeObserver.disconnect());

  return {
    node,
    readout,
    draw(next: Cells, row: number, columns: Set<number>) {
      [cells, selectedRow, selectedColumns] = [next, row, columns];
      active = {
        row: Math.min(active.row, next.rows.length - 1),
        column: Math.min(active.column, next.columns.length - 1),
      };
      draw();
    },
  };
}
