// A button that opens a list of choices with a search; the arrow keys walk it, Enter chooses.

import { closest, consume, h } from "../page/dom";
import { popover } from "./popover";

interface Choices {
  /** What the search is called. */
  search: string;
  /** The choices that match what is typed: groups of `choiceRow`, or what is said while there are none. */
  draw(query: string): Node[];
  choose(value: string): void;
}

export function choiceList(signal: AbortSignal, title: Node[], choices: Choices, ...classes: string[]) {
  const label = choices.search;
  const search = h("input", { type: "search", placeholder: label, "aria-label": label, signal });
  const list = h("div");
  const sheet = h("div", {}, search, list);
  const picker = popover(signal, title, sheet, ...classes);
  let early: KeyboardEvent | null = null; // a key that waits for the rows
  const rows = () => [...list.querySelectorAll<HTMLElement>("[data-choice]")].filter((row) => row.checkVisibility());

  const choose = (row: HTMLElement | null | undefined) => {
    if (row?.dataset.choice === undefined || row.getAttribute("aria-disabled")) return;
    picker.close();
    picker.summary.focus();
    choices.choose(row.dataset.choice);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { key } = event;
    if (!["ArrowDown", "ArrowUp", "Enter"].includes(key) || (key === "Enter" && closest(event, "summary"))) return;
    consume(event);
    const visible = rows();
    const at = visible.indexOf(document.activeElement as HTMLElement);
    if (!visible.length) early = event;
    else if (key === "ArrowDown") visible[Math.min(at + 1, visible.length - 1)].focus();
    else if (key === "ArrowUp") (at > 0 ? visible[at - 1] : search).focus();
    else choose(visible[Math.max(at, 0)]);
  };
  const redraw = () => {
    if (!picker.node.open) return;
    list.replaceChildren(...choices.draw(search.value.trim().toLowerCase()));
    const key = early;
    if (!key || !rows().length) return;
    early = null;
    onKeyDown(key);
  };
  const onInput = () => {
    early = null;
    redraw();
  };
  const onOpen = () => {
    if (!picker.node.open) return;
    search.value = "";
    onInput();
    search.focus(); // in the click itself: keys typed right after it are for the search
  };
  sheet.addEventListener("keydown", onKeyDown, { signal });
  list.addEventListener("click", (event) => choose(closest(event, "[data-choice]")), { signal });
  search.addEventListener("input", onInput, { signal });
  picker.summary.addEventListener("click", onOpen, { signal });
  return { ...picker, redraw };
}

export const choiceGroup = (label: string, rows: HTMLElement[]) =>
  h("div", { class: "nbsal-choices", role: "listbox", "aria-label": label }, ...rows);

/** A row of the list, which stands for a value. */
export const choiceRow = (value: string, current: boolean, disabled: boolean, ...content: Node[]) =>
  h(
    "div",
    {
      class: "nbsal-choice",
      role: "option",
      tabindex: -1,
      "data-choice": value,
      "aria-selected": String(current),
      "aria-disabled": disabled ? "true" : null,
    },
    ...content,
  );
