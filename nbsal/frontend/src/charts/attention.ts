// What the chosen head attends to: a map from words to words, what the head is known for, and a button that switches it.

import type { Context } from "../page/context";
import { h, panel, sanitize } from "../page/dom";
import type { Head } from "../page/head-traits";
import type { HeadsTraits } from "../page/traits";
import { shade } from "../text/colour";
import type { Explanation } from "../text/explanation";
import { ranked } from "../text/marks";
import { hoverSender } from "../text/scored-text";
import { attentionOf, type Unit, unitsOf } from "./attention-units";
import { headName, type headSwitches, headsAct } from "./head-grid";
import { heatmap } from "./heatmap";

const AXES = "rows attend to columns";
const CHOOSE = "Select a head to see its attention";
const HINT = "Point at a cell to see how much a word attends to another.";
const MOST_ROWS = 40; // rows of a map; of a longer text those around the selected word

export function attentionPanel(context: Context<HeadsTraits>, { isOn, toggle }: ReturnType<typeof headSwitches>) {
  const { get, set, on, live, signal } = context;
  const hover = hoverSender(context);
  const readout = h("div", { class: "nbsal-readout nbsal-small nbsal-line", "aria-live": "polite" }, HINT);
  const alone = h("span", { class: "nbsal-quiet" });
  const button = h("button", {
    class: "nbsal-button",
    signal,
    click: () => {
      const head = get("head");
      if (head) toggle(head);
    },
  });
  const tools = h("div", { class: "nbsal-tools" }, button, alone);
  let explanation: Explanation | null = null;
  let units: Unit[] = [];
  let weights: number[][] = []; // [query, key]
  let [firstRow, drawnHead] = [0, ""]; // what the map shows
  let drawn: unknown[] = []; // what it was drawn from

  const select = (k: number | null) => {
    const unit = k === null ? null : units[k];
    if (unit?.special) return;
    const same = !unit || JSON.stringify(get("selection")) === JSON.stringify(unit.tokens);
    set({ selection: same ? [] : unit.tokens });
  };
  const grid = heatmap(context, "Attention by words", {
    selectRow: (row) => select(firstRow + row),
    selectColumn: select,
    point: (cell) => {
      const unit = cell && units[cell.column];
      hover(unit && !unit.special ? unit.tokens[0] : null);
      readout.textContent = cell && cell.row >= 0 ? sanitize(describe(cell.row, cell.column)) : HINT;
    },
  });
  const body = h("div", { class: "nbsal-attention-map" }, grid.node, readout);
  const { node, heading: title, note: axes } = panel("nbsal-attention", body, tools);
  title.setAttribute("aria-live", "polite");
  title.textContent = CHOOSE;

  const describe = (row: number, column: number) => {
    const from = firstRow + row;
    const share = Math.round(100 * (weights[from]?.[column] ?? 0));
    return `${units[from].name} \u2192 ${units[column].name} \u00b7 ${get("_attention").percentages?.[share] ?? ""}`;
  };
  const setTitle = (text: string) => {
    if (title.textContent !== sanitize(text)) title.textContent = sanitize(text); // screen readers tell a change
  };
  const habitOf = ([block, head]: Head) => get("_heads").habits?.[block][head] ?? "";
  const selectedUnits = () => {
    const selection = new Set(get("selection"));
    return units.flatMap(({ tokens }, k) => (tokens.some((i) => selection.has(i)) ? [k] : []));
  };
  const drawState = () => {
    const { head, heading } = get("_attention");
    if (!units.length || !head) return;
    const from = selectedUnits();
    const at = get("hover");
    const pointed = at === null ? null : units.findIndex(({ tokens }) => tokens.includes(at));
    grid.mark(new Set(from.length === 1 ? [from[0] - firstRow] : []), new Set(from), pointed);
    const selected = get("_attended");
    if (String(selected.selection) === String(get("selection"))) setTitle(selected.heading ?? heading);
    else if (!live) setTitle(heading); // else the selection is answered in a moment
  };
  /** The rows to draw: all, or those around the selected word. */
  const rowsInSight = () => {
    const start = units.length > MOST_ROWS ? Math.max(0, (selectedUnits()[0] ?? 0) - MOST_ROWS / 2) : 0;
    return Math.min(start, Math.max(0, units.length - MOST_ROWS));
  };
  const drawMap = (head: Head) => {
    if (!explanation) return;
    const { size = 0, top = 0, map } = get("_attention");
    const weight = (query: number, key: number) => ((map?.getUint8(query * size + key) ?? 0) * top) / 255;
    units = unitsOf(explanation.tokens, explanation.parts, get("level"));
    weights = units.map((unit) => attentionOf(unit, units, weight));
    firstRow = rowsInSight();
    drawnHead = headName(context, head);
    const largest = weights.reduce((most, row) => Math.max(most, ...row), 0);
    const rowNames = units.slice(firstRow, firstRow + MOST_ROWS);
    grid.draw({
      rows: rowNames.map(({ name }) => name),
      columns: units.map(({ name }) => name),
      groups: [],
      shade: (row, column) => shade(weights[firstRow + row][column], largest),
      describe: ({ row, column }) => describe(row, column),
      ranked: (row) => ranked(weights[firstRow + row]),
    });
    grid.node.setAttribute("aria-label", `Attention of ${drawnHead}: ${AXES}`);
    const range = `rows ${firstRow + 1}\u2013${firstRow + rowNames.length} of ${units.length}`;
    axes.textContent = units.length > MOST_ROWS ? `${AXES} \u00b7 ${range}` : AXES;
    drawState();
  };
  const drawTools = () => {
    const head = get("head");
    tools.hidden = !head || !live || !headsAct(context) || !get("_heads").on;
    button.textContent = head && !isOn(head) ? "Switch this head on" : "Switch this head off";
    const { alone: words, head: aloneHead } = get("_effect");
    alone.textContent = (String(aloneHead) === String(head) && words && sanitize(words)) || "\u00a0";
  };
  /** Why there is no map of the chosen head, or "". */
  const reason = () => (explanation ? (get("_attention").why ?? (live ? "" : get("_heads").saved)) : CHOOSE);
  const draw = () => {
    const head = get("head");
    const attention = get("_attention");
    const current = attention.head && head && String(attention.head) === String(head);
    const fits = attention.size === explanation?.tokens.length;
    title.classList.toggle("nbsal-hint", !head);
    drawTools();
    if (current && fits) {
      const source = [attention, explanation?.tokens, get("level"), body.hidden];
      if (source.some((value, i) => value !== drawn[i])) drawMap(head);
      else drawState();
      body.hidden = false;
      drawn = [...source.slice(0, 3), false];
      node.classList.remove("nbsal-pending");
      return;
    }
    const text = head ? reason() : CHOOSE;
    if (text) {
      setTitle(text);
      axes.textContent = "";
      [units, body.hidden] = [[], true];
    } else if (!drawnHead && head) {
      setTitle(`${headName(context, head)}: ${habitOf(head)}`);
      body.hidden = true;
    }
    node.classList.toggle("nbsal-pending", !text); // the map of another head stays, dim, until this one's is there
  };
  on(["selection"], () => {
    const head = get("_attention").head;
    if (head && units.length > MOST_ROWS && rowsInSight() !== firstRow) drawMap(head);
    else drawState();
  });
  on(["hover"], drawState);
  on(["_attended"], drawState);
  on(["head", "level"], draw);
  return {
    node,
    draw(next: Explanation | null) {
      explanation = next;
      draw();
    },
    drawTools,
  };
}
