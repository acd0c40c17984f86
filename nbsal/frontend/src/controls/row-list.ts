// A list of rows with one Tab stop, which are pointed at, walked by the arrow keys and chosen.

import { closest, consume, h, setActive, uniqueId } from "../page/dom";
import { clamp, nextItem } from "../page/keyboard";

interface Actions {
  /** A row is chosen; `adds` with Ctrl, Cmd or Space. */
  choose(row: number, adds: boolean): void;
  /** The row under the pointer or the keys, or none. */
  point?(row: number | null): void;
  /** The row that the keys have reached. */
  walk?(row: number): void;
  /** Escape. */
  leave?(): void;
}

/** @param name the class of the list */
export function rowList(signal: AbortSignal, label: string, name: string, { choose, point, walk, leave }: Actions) {
  const uid = uniqueId();
  let active = 0;
  const rowOf = (event: Event) => Number(closest(event, "[data-row]")?.dataset.row ?? -1);
  const activate = (row: number) => {
    active = row;
    setActive(node, node.children[row]);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const count = [...node.children].filter((row) => row.checkVisibility()).length; // a narrow list is short
    const row = nextItem(event, active, count, { line: (from, down) => from + down });
    if (row !== null) {
      activate(clamp(row, count));
      walk?.(active);
    } else if ((event.key === "Enter" || event.key === " ") && node.children.length) choose(active, event.key === " ");
    else if (event.key === "Escape" && leave) leave();
    else return;
    consume(event);
  };
  const onClick = (event: MouseEvent) => {
    if (rowOf(event) >= 0) choose(rowOf(event), event.ctrlKey || event.metaKey);
  };
  const node = h("ol", {
    class: name,
    role: "listbox",
    tabindex: 0,
    "aria-label": label,
    signal,
    click: onClick,
    pointerover: (event) => rowOf(event) >= 0 && point?.(rowOf(event)),
    pointerleave: () => point?.(null),
    keydown: onKeyDown,
  });
  return {
    node,
    activate,
    /** Draw so many rows from the elements in each. */
    draw(count: number, cells: (row: number) => Node[]) {
      active = 0;
      const option = { role: "option", "aria-selected": "false" };
      const rows = Array.from({ length: count }, (_, row) =>
        h("li", { ...option, "data-row": row, id: `${uid}-${row}` }, ...cells(row)),
      );
      node.replaceChildren(...rows);
    },
    /** Mark the rows that are selected. */
    select(isSelected: (row: number) => boolean) {
      for (const [row, line] of [...node.children].entries())
        line.setAttribute("aria-selected", String(isSelected(row)));
    },
  };
}
