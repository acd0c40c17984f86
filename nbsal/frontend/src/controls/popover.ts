// A button that opens a sheet over the page; Escape or a click elsewhere closes it and gives back the focus.

import { consume, h, onAbort } from "../page/dom";

const GAP = 4; // pixels between the button and the sheet
const LEAST_ROOM = 280; // pixels under the button, else the sheet opens above it
const MARGIN = 8; // pixels between the sheet and the edge of the window

export function popover(signal: AbortSignal, title: (Node | string)[], sheet: HTMLElement, ...classes: string[]) {
  sheet.classList.add("nbsal-sheet");
  sheet.popover = "manual"; // above everything else: notebooks cut off what leaves a cell
  const atEnd = classes.includes("nbsal-at-end");
  const setOpen = (open: boolean) => {
    node.open = open;
    if (sheet.isConnected) sheet.togglePopover(open);
  };
  const close = () => setOpen(false);
  const onClick = (event: Event) => {
    event.preventDefault(); // the page would open only the details
    setOpen(!node.open);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key !== "Escape" || !node.open) return;
    close();
    summary.focus();
    consume(event);
  };
  const summary = h("summary", { tabindex: 0, signal, click: onClick }, ...title);
  const node = h(
    "details",
    { class: ["nbsal-popover", ...classes].join(" "), signal, keydown: onKeyDown },
    summary,
    sheet,
  );
  const onPointerDown = ({ target }: Event) => {
    if (node.open && !(target instanceof Node && node.contains(target))) close();
  };
  const follow = () => node.open && place(sheet, summary, atEnd);
  document.addEventListener("pointerdown", onPointerDown, { signal });
  document.addEventListener("scroll", follow, { signal, capture: true, passive: true });
  window.addEventListener("resize", follow, { signal });
  const observer = new ResizeObserver(follow); // also when it opens
  observer.observe(sheet);
  onAbort(signal, () => observer.disconnect());
  return { node, summary, close };
}

/** Put a sheet under its button, or above it where there is more room, within the width of the view. */
function place(sheet: HTMLElement, button: HTMLElement, atEnd: boolean) {
  const anchor = button.getBoundingClientRect();
  const frame = (button.closest(".nbsal") ?? document.body).getBoundingClientRect();
  sheet.style.maxHeight = "";
  const { width, height } = sheet.getBoundingClientRect();
  const [above, below] = [anchor.top - GAP - MARGIN, window.innerHeight - anchor.bottom - GAP - MARGIN];
  const upwards = below < Math.min(height, LEAST_ROOM) && above > below; // it should not cover the text
  const room = upwards ? above : below;
  const left = atEnd ? anchor.right - width : anchor.left;
  sheet.style.left = `${Math.max(frame.left, Math.min(left, frame.right - width))}px`;
  sheet.style.top = `${upwards ? anchor.top - GAP - Math.min(height, room) : anchor.bottom + GAP}px`;
  sheet.style.maxHeight = height > room ? `${room}px` : "";
}
