// A button that opens a sheet over the page; Escape or a click elsewhere closes it and gives back the focus.

import { consume, h } from "./dom";

export function popover(signal: AbortSignal, title: (Node | string)[], sheet: HTMLElement, ...classes: string[]) {
  sheet.classList.add("nbsal-sheet");
  const summary = h("summary", { tabindex: 0 }, ...title);
  const close = () => {
    node.open = false;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key !== "Escape" || !node.open) return;
    close();
    summary.focus();
    consume(event);
  };
  const node = h(
    "details",
    { class: ["nbsal-popover", ...classes].join(" "), signal, keydown: onKeyDown },
    summary,
    sheet,
  );
  document.addEventListener(
    "pointerdown",
    ({ target }) => {
      if (node.open && !(target instanceof Node && node.contains(target))) close();
    },
    { signal },
  );
  return { node, summary, close };
}
