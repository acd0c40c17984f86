// A grid of attention heads, a row for each block: a click shows what a head attends to, Shift+click or Delete switches it.

import type { Context } from "../page/context";
import { closest, consume, h, setActive, uniqueId } from "../page/dom";
import type { Head } from "../page/head-traits";
import { nextItem } from "../page/keyboard";
import type { HeadsTraits } from "../page/traits";

const HINT = "Click a head to see its attention; Shift+click or Delete switches it on or off.";

/** Whether switching heads changes anything: only Mask-LRP reads them, and a mask without a text shows them. */
export const headsAct = ({ get }: Pick<Context<HeadsTraits>, "get">) =>
  get("method") === "" || get("method").startsWith("mask-lrp");

/** The name of a head, or "" before there is a grid. */
export const headName = ({ get }: Pick<Context<HeadsTraits>, "get">, head: Head) =>
  (get("_heads").names ?? []).map((names, i) => names[head[i]]).join(", ");

/** The heads that are on, and a function that switches one. */
export function headSwitches(context: Context<HeadsTraits>) {
  const { get, set, live } = context;
  const isToggled = (block: number, head: number) =>
    get("toggled").some((other) => other[0] === block && other[1] === head);
  const isOn = ([block, head]: Head) => Boolean(get("_heads").on?.[block][head]) !== isToggled(block, head);
  return {
    isOn,
    /** How many heads are off, of all. */
    count() {
      const rows = get("_heads").on ?? [];
      const heads = rows.flatMap((row, block) => row.map((_, head): Head => [block, head]));
      return { off: heads.filter((head) => !isOn(head)).length, total: heads.length };
    },
    toggle([block, head]: Head) {
      if (!live || !headsAct(context)) return;
      const others = get("toggled").filter((other) => other[0] !== block || other[1] !== head);
      set({ toggled: isToggled(block, head) ? others : [...others, [block, head]] });
    },
  };
}

export function headGrid(context: Context<HeadsTraits>, { isOn, toggle }: ReturnType<typeof headSwitches>) {
  const { get, set, signal } = context;
  const uid = uniqueId();
  const readout = h("div", { class: "nbsal-readout nbsal-small nbsal-line", "aria-live": "polite" }, HINT);
  let cells: HTMLElement[] = [];
  let columns = 1; // heads of a block
  let active = -1; // before the first focus, the chosen head

  const headAt = (i: number): Head => [Math.floor(i / columns), i % columns];
  const describe = (i: number) => {
    const [block, head] = headAt(i);
    const state = headsAct(context) ? ` \u00b7 ${isOn([block, head]) ? "on" : "off"}` : "";
    const about = get("_heads").about?.[block][head] ?? "";
    readout.replaceChildren(h("b", {}, headName(context, [block, head])), `${state} \u00b7 `, about);
  };
  const activate = (i: number) => {
    active = i;
    setActive(node, cells[i]);
    describe(i);
  };
  const press = (i: number, shift: boolean) => {
    if (shift || !get("method"))
      toggle(headAt(i)); // without a text there is no attention to see
    else set({ head: headAt(i) });
    activate(i);
  };
  const cellAt = (event: Event) => {
    const cell = closest(event, ".nbsal-switch");
    return cell ? cells.indexOf(cell) : -1;
  };
  const line = (from: number, direction: number) =>
    cells[from + direction * columns] ? from + direction * columns : from;
  const onKeyDown = (event: KeyboardEvent) => {
    const next = nextItem(event, active, cells.length, { line });
    if (next !== null) activate(next);
    else if (event.key === " " || event.key === "Enter") press(active, event.shiftKey);
    else if (event.key === "Delete" || event.key === "Backspace") press(active, true);
    else return;
    consume(event);
  };
  const rest = () => readout.replaceChildren(HINT);
  const chosen = () => {
    const head = get("head");
    return head ? head[0] * columns + head[1] : 0;
  };
  const node = h("div", {
    class: "nbsal-heads-grid",
    role: "grid",
    tabindex: 0,
    "aria-label": "Heads by block",
    signal,
    keydown: onKeyDown,
    pointerover: (event) => cellAt(event) >= 0 && describe(cellAt(event)),
    pointerleave: rest,
    blur: rest,
    focus: () => cells.length && activate(active < 0 ? chosen() : active),
    click: (event) => cellAt(event) >= 0 && press(cellAt(event), event.shiftKey),
  });
  const layOut = (blocks: number, heads: number) => {
    columns = heads;
    active = Math.min(active, blocks * heads - 1);
    node.style.setProperty("--heads", String(heads));
    const numbers = Array.from({ length: heads }, (_, head) => h("span", { role: "columnheader" }, String(head)));
    const rows = [
      h("div", { role: "row", class: "nbsal-heads-row" }, h("span", { role: "columnheader" }, "head"), ...numbers),
    ];
    cells = [];
    for (let block = 0; block < blocks; block++) {
      const row = numbers.map((_, head) => h("span", { role: "gridcell", id: `${uid}-${block}-${head}` }));
      const name = h("span", { role: "rowheader" }, `block ${block}`);
      cells.push(...row);
      rows.push(h("div", { role: "row", class: "nbsal-heads-row" }, name, ...row));
    }
    node.replaceChildren(...rows);
  };
  const drawCell = (cell: HTMLElement, i: number) => {
    const [block, head] = headAt(i);
    const { kinds, words, habits } = get("_heads");
    const [long, short] = words?.[block][head] ?? [];
    const on = isOn([block, head]) || !headsAct(context);
    const text = long ?? (on ? "" : "off");
    cell.className = `nbsal-switch nbsal-${kinds?.[block][head]}${on ? "" : " nbsal-off"}`;
    cell.replaceChildren(h("span", { class: "nbsal-long" }, text), h("span", { class: "nbsal-short" }, short ?? text));
    cell.setAttribute("aria-selected", String(String(get("head")) === `${block},${head}`));
    const state = headsAct(context) ? `, ${on ? "on" : "off"}` : "";
    const name = [...new Set([long ?? habits?.[block][head], short])].filter(Boolean).join(", "); // what is seen is in it
    cell.setAttribute("aria-label", `${headName(context, [block, head])}: ${name}${state}`);
  };
  const draw = () => {
    const { kinds } = get("_heads");
    if (!kinds) return;
    if (columns !== kinds[0].length || cells.length !== kinds.length * columns) layOut(kinds.length, kinds[0].length);
    for (const [i, cell] of cells.entries()) drawCell(cell, i);
    if (node.matches(":focus")) activate(active);
  };
  return { node, readout, draw };
}
