// A grid of shaded cells that scrolls sideways under a first column that stays; only columns in sight are in the page.

import { closest, consume, h, onAbort, setActive, uniqueId } from "../page/dom";
import { clamp, nextItem } from "../page/keyboard";
import { applyShade, type Shade, UNSHADED } from "../text/colour";

interface Cell {
  row: number;
  column: number;
}

export interface Cells {
  rows: string[];
  columns: string[];
  /** Of columns whose names are short. */
  titles?: string[];
  /** Columns that begin a new group, after a gap. */
  groups: number[];
  shade(row: number, column: number): Shade;
  /** A cell in words. */
  describe(cell: Cell): string;
  /** What stands in a cell; of nothing it is heard that it is little. */
  print?(row: number, column: number): string;
  /** Why a row is blank, or "". */
  remark?(row: number): string;
  /** The columns of a row, the strongest first. */
  ranked(row: number): number[];
}

interface Actions {
  selectRow(row: number): void;
  /** Select a column, or with null none; `row` is that of the cell on which Enter or Space was pressed. */
  selectColumn(column: number | null, row?: number): void;
  /** The cell under the pointer or the keys, if any. */
  point(cell: Cell | null): void;
}

const NONE: Cells = { rows: [], columns: [], groups: [], shade: () => UNSHADED, describe: () => "", ranked: () => [] };
const LITTLE = "under 2";
/** Pixels of the first column, and of a cell; with more columns than fit the grid scrolls. */
const SIZES = { head: 80, least: 18, most: 44 };
const GROUP_GAP = 12;
const OVERSCAN = 12; // columns drawn beyond the edges

export function heatmap({ signal }: { signal: AbortSignal }, label: string, actions: Actions, sizes = SIZES) {
  const uid = uniqueId();
  let cells = NONE;
  let [head, width] = [sizes.head, sizes.least];
  let [first, last] = [0, 0]; // the columns that are drawn
  let active: Cell = { row: 0, column: 0 };
  let selectedRows = new Set<number>();
  let selectedColumns = new Set<number>();
  let pointedColumn = -1;
  let started = false; // whether the grid has been scrolled to where it starts

  const idOf = ({ row, column }: Cell) => `${uid}-${row}-${column}`;
  const elementOf = ({ row, column }: Cell) => node.querySelector(`[data-row="${row}"][data-column="${column}"]`);
  /** Where a column begins. */
  const left = (column: number) => column * width + GROUP_GAP * cells.groups.filter((start) => start <= column).length;

  const fit = () => {
    const gaps = GROUP_GAP * cells.groups.length;
    head = Math.min(sizes.head, Math.max(SIZES.head, node.clientWidth / 4));
    const room = (node.clientWidth - head - gaps) / (cells.columns.length || 1);
    width = Math.max(sizes.least, Math.min(sizes.most, room));
    node.style.setProperty("--cell", `${width}px`);
    node.style.setProperty("--head", `${head}px`);
  };
  const visibleColumns = () => {
    const count = Math.ceil(node.clientWidth / width) || 60;
    const start = Math.max(0, Math.floor(node.scrollLeft / width) - OVERSCAN);
    return [start, Math.min(cells.columns.length, start + count + 2 * OVERSCAN)];
  };
  const drawCell = (row: number, column: number) => {
    const isHeader = row < 0;
    const printed = isHeader ? undefined : cells.print?.(row, column);
    const cell = h(
      "span",
      {
        class: isHeader ? "nbsal-column" : "nbsal-cell",
        role: isHeader ? "columnheader" : "gridcell",
        id: isHeader ? null : idOf({ row, column }),
        "data-row": row,
        "data-column": column,
        "aria-label": printed === "" ? LITTLE : null,
        title: isHeader ? cells.titles?.[column] : undefined,
      },
      isHeader ? h("span", {}, cells.columns[column]) : printed,
    );
    if (column > first && cells.groups.includes(column)) {
      cell.classList.add("nbsal-after-gap");
      cell.style.width = `${width + GROUP_GAP}px`;
    }
    if (!isHeader) applyShade(cell, cells.shade(row, column));
    return cell;
  };
  /** A row; row -1 is that of the column headers. */
  const drawRow = (row: number) => {
    const line = h("div", { class: "nbsal-cells", role: "presentation" });
    line.style.paddingLeft = `${left(first)}px`;
    line.style.width = `${left(cells.columns.length)}px`;
    for (let column = first; column < last; column++) line.append(drawCell(row, column));
    const remark = row < 0 ? "" : cells.remark?.(row);
    if (remark) line.append(h("span", { class: "nbsal-remark nbsal-line nbsal-quiet", "aria-hidden": "true" }, remark));
    const role = row < 0 ? "presentation" : "rowheader"; // nothing stands in the corner
    const name = h(
      "span",
      { class: "nbsal-head nbsal-line", role, "data-row": row, dir: "auto" },
      row < 0 ? "" : cells.rows[row],
    );
    return h("div", { class: "nbsal-row", role: "row" }, name, line);
  };
  const drawState = () => {
    for (const [i, row] of [...node.children].entries())
      row.setAttribute("aria-selected", String(selectedRows.has(i - 1)));
    for (const element of node.querySelectorAll<HTMLElement>("[data-column]")) {
      const column = Number(element.dataset.column);
      element.setAttribute("aria-selected", String(selectedColumns.has(column)));
      element.classList.toggle("nbsal-pointed", column === pointedColumn);
    }
    elementOf(active)?.classList.add("nbsal-active");
  };
  const draw = () => {
    [first, last] = visibleColumns();
    node.setAttribute("aria-rowcount", String(cells.rows.length + 1));
    node.setAttribute("aria-colcount", String(cells.columns.length));
    const lines = cells.columns.length ? cells.rows.length + 1 : 0;
    node.replaceChildren(...Array.from({ length: lines }, (_, i) => drawRow(i - 1)));
    drawState();
  };
  const redrawIfNeeded = () => {
    const [start, end] = visibleColumns();
    if (start < first - OVERSCAN / 2 || end > last + OVERSCAN / 2 || (start === 0 && first > 0)) draw();
  };
  const activate = (cell: Cell) => {
    active = cell;
    const [start, end] = [left(cell.column), left(cell.column) + width + head];
    if (start < node.scrollLeft) node.scrollLeft = start;
    if (end > node.scrollLeft + node.clientWidth) node.scrollLeft = end - node.clientWidth;
    redrawIfNeeded();
    const element = elementOf(cell);
    setActive(node, element);
    element?.setAttribute("aria-label", cells.describe(cell));
    actions.point(cell);
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
    if (cell && cell.column >= 0) actions.point(cell);
  };
  const walk = (down: number) => {
    const row = clamp(active.row + down, cells.rows.length);
    const moves = row !== active.row || !selectedRows.has(row);
    activate({ row, column: active.column });
    if (moves) actions.selectRow(row);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const ranked = () => cells.ranked(active.row);
    const column = nextItem(event, active.column, cells.columns.length, { ranked });
    const down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (column !== null) activate({ row: active.row, column });
    else if (down) walk(down);
    else if (event.key === "Enter" || event.key === " ") actions.selectColumn(active.column, active.row);
    else if (event.key === "Escape") actions.selectColumn(null);
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
    pointerleave: () => actions.point(null),
    keydown: onKeyDown,
    focus: () => cells.columns.length && activate(active),
    blur: () => actions.point(null),
    scroll: redrawIfNeeded,
  });
  /** Scroll to the strongest column of the selected row, once there is such a row. */
  const start = () => {
    const [row] = selectedRows;
    if (started || !(row >= 0) || !node.clientWidth || !cells.columns.length) return;
    started = true;
    const [from, room] = [left(cells.ranked(row)[0]), node.clientWidth - head];
    if (from + width > room) node.scrollLeft = from - room / 2;
  };
  const onResize = () => {
    fit();
    draw();
    start();
  };
  const resizeObserver = new ResizeObserver(onResize);
  resizeObserver.observe(node);
  onAbort(signal, () => resizeObserver.disconnect());

  return {
    node,
    draw(next: Cells) {
      cells = next;
      active = { row: clamp(active.row, next.rows.length), column: clamp(active.column, next.columns.length) };
      const longest = next.columns.reduce((most, { length }) => Math.max(most, length), 1);
      node.style.setProperty("--longest", String(longest));
      onResize();
    },
    /** Mark the selected rows and columns, and the column under the pointer, without drawing the cells again. */
    mark(rows: Set<number>, columns: Set<number>, pointed: number | null) {
      if (rows.size === 1 && !selectedRows.has([...rows][0])) {
        setActive(node, null);
        active = { row: clamp([...rows][0], cells.rows.length), column: active.column };
      }
      [selectedRows, selectedColumns, pointedColumn] = [rows, columns, pointed ?? -1];
      drawState();
      start();
    },
  };
}
