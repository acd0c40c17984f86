// A grid of attention heads, a row for each block; a click or a key switches a head on or off.

import type { Context } from "./context";
import { consume, debounce, h, liveRegion, sanitize, uniqueId } from "./dom";
import { nextItem } from "./keyboard";
import type { Head, HeadKind, HeadsTraits } from "./traits";

const ATTENTION_DELAY = 200; // ms on a head before its attention is requested
const LETTERS = { syntactic: "S", positional: "P", both: "B", unnamed: "U", none: "\u00b7" };
const ROLES = {
  syntactic: "syntactic",
  positional: "positional",
  both: "syntactic and positional",
  unnamed: "in the mask, role not recorded",
  none: "no known pattern",
};

export function headGrid({ get, set, live, signal }: Context<HeadsTraits>) {
  const uid = uniqueId();
  const readout = liveRegion();
  let cells: HTMLElement[] = [];
  let columns = 1; // heads of a block
  let active = 0;

  const headOf = (i: number): Head => [Math.floor(i / columns), i % columns];
  const isOn = (i: number) => {
    const [block, head] = headOf(i);
    const toggles = get("toggled").filter((other) => other[0] === block && other[1] === head).length;
    return ((get("_heads").on?.[block][head] ?? 0) + toggles) % 2 === 1;
  };
  const describe = (i: number) => {
    const [block, head] = headOf(i);
    const about = get("_heads").about?.[block][head];
    readout.textContent = sanitize(`Head ${block}.${head}, ${isOn(i) ? "on" : "off"}: ${about}`);
    showAttention(i);
  };
  const showAttention = debounce(
    (i: number) => live && get("method") && set({ head: headOf(i) }),
    ATTENTION_DELAY,
    signal,
  );
  const activate = (i: number) => {
    cells[active]?.classList.remove("nbsal-active");
    active = i;
    cells[i].classList.add("nbsal-active");
    node.setAttribute("aria-activedescendant", cells[i].id);
    describe(i);
  };
  const toggle = (i: number) => {
    if (!live) return;
    const [block, head] = headOf(i);
    const toggled = get("toggled");
    const others = toggled.filter((other) => other[0] !== block || other[1] !== head);
    set({ toggled: others.length < toggled.length ? others : [...others, [block, head]] });
    activate(i);
  };
  const cellAt = ({ target }: Event) => cells.indexOf(target as HTMLElement);
  const onKeyDown = (event: KeyboardEvent) => {
    const line = (from: number, direction: number) =>
      cells[from + direction * columns] ? from + direction * columns : from;
    const next = nextItem(event, active, cells.length, { line });
    if (next !== null) activate(next);
    else if (event.key === " " || event.key === "Enter") toggle(active);
    else return;
    consume(event);
  };
  const node = h("div", {
    class: "nbsal-grid",
    role: "grid",
    tabindex: 0,
    "aria-label": "Heads",
    "aria-multiselectable": "true",
    signal,
    keydown: onKeyDown,
    pointerover: (event) => cellAt(event) >= 0 && describe(cellAt(event)),
    pointerleave: () => showAttention(active),
    focus: () => cells.length && activate(active),
    click: (event) => cellAt(event) >= 0 && toggle(cellAt(event)),
  });
  const layOut = (kinds: HeadKind[][]) => {
    columns = kinds[0].length;
    active = Math.min(active, kinds.length * columns - 1);
    node.style.setProperty("--nbsal-heads", String(columns));
    const blocks = kinds.map((row, block) =>
      row.map((_, head) => h("span", { role: "gridcell", id: `${uid}-${block}-${head}` })),
    );
    cells = blocks.flat();
    const rows = blocks.map((row, block) => {
      const name = h("span", { role: "rowheader", class: "nbsal-block-name" }, `Block ${block}`);
      return h("div", { role: "row", class: "nbsal-heads-row" }, name, ...row);
    });
    node.replaceChildren(...rows);
  };
  const draw = () => {
    const { kinds } = get("_heads");
    if (!kinds) return;
    if (columns !== kinds[0].length || cells.length !== kinds.length * columns) layOut(kinds);
    const selected = get("head")?.join(".");
    for (const [i, cell] of cells.entries()) {
      const [block, head] = headOf(i);
      const kind = kinds[block][head];
      const name = `${block}.${head}`;
      cell.textContent = LETTERS[kind];
      cell.className = `nbsal-switch nbsal-${kind}${name === selected ? " nbsal-selected" : ""}`;
      cell.setAttribute("aria-selected", String(isOn(i)));
      cell.setAttribute("aria-label", `Head ${name}, ${ROLES[kind]}`);
    }
    if (node.matches(":focus")) cells[active]?.classList.add("nbsal-active");
  };
  return { node, readout, draw };
}
