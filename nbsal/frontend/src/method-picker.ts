// The choice of a method: about eight are recommended, the others are folded away; each says what it shows and costs.

import { closest, consume, h } from "./dom";
import type { Side } from "./explainer-controls";
import { chosenMethod, methodLists } from "./method-lists";
import { popover } from "./popover";
import type { MethodChoice } from "./traits";

const GROUPS = [
  ["more", "More"],
  ["published", "As published"],
] as const;

export function methodPicker(side: Pick<Side, "method" | "choices" | "ask" | "fail">) {
  const { method, choices, ask, fail } = side;
  const { signal, live } = method;
  const name = h("b");
  const search = h("input", { type: "search", placeholder: "Find a method", "aria-label": "Find a method", signal });
  const list = h("div");
  const sheet = h("div", {}, search, list);
  const title = [h("span", { class: "nbsal-quiet" }, "Method"), name];
  const picker = popover(signal, title, sheet, "nbsal-method-picker", "nbsal-needs-python");
  let rows: HTMLElement[] = [];
  let awaited = ""; // the list that was requested
  let early: KeyboardEvent | null = null; // a key that waits for the list

  const choose = (row: HTMLElement | null | undefined) => {
    if (!row || row.getAttribute("aria-disabled")) return;
    picker.close();
    picker.summary.focus();
    method.set(row.dataset.method ?? method.get());
  };
  const draw = () => {
    const current = method.get();
    const choice = chosenMethod(side);
    name.textContent = choice?.label ?? current;
    picker.summary.title = choice ? `${choice.name} (${choice.paper})` : current;
    if (!picker.node.open) return;
    const methods = methodLists().get(choices.get().methods);
    if (!methods) {
      list.replaceChildren(h("p", { class: "nbsal-quiet" }, "Reading the list of methods\u2026"));
      request();
      return;
    }
    const query = search.value.trim().toLowerCase();
    const matches = methods.filter((entry) =>
      `${entry.name} ${entry.label} ${entry.summary}`.toLowerCase().includes(query),
    );
    rows = [];
    const drawRows = (entries: MethodChoice[]) =>
      entries.map((entry) => {
        const row = methodRow(entry, entry.name === current);
        rows.push(row);
        return row;
      });
    const recommended = matches.filter(({ group }) => group === "recommended");
    const first = recommended.length ? [methodList("Recommended methods", drawRows(recommended))] : [];
    const folds = GROUPS.map(([key, words]) => {
      const entries = matches.filter(({ group }) => group === key);
      if (!entries.length) return null;
      const open = query !== "" || entries.some((entry) => entry.name === current);
      const summary = h("summary", {}, `${words} (${entries.length})`);
      return h("details", { class: "nbsal-more", open }, summary, methodList(`${words} methods`, drawRows(entries)));
    });
    list.replaceChildren(...first, ...folds.filter((fold) => fold !== null));
  };
  const request = async () => {
    const { methods } = choices.get();
    if (!live || methods === awaited || methodLists().has(methods)) return;
    awaited = methods;
    try {
      methodLists().set(methods, await ask("methods", { key: methods }));
    } catch (error) {
      picker.close();
      fail(error instanceof Error ? error.message : String(error));
    }
    awaited = "";
    draw();
    if (early && picker.node.open) onKeyDown(early);
    early = null;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { key } = event;
    if (!["ArrowDown", "ArrowUp", "Enter"].includes(key) || (key === "Enter" && closest(event, "summary"))) return;
    consume(event);
    if (awaited) {
      early = event;
      return;
    }
    const visible = rows.filter((row) => row.checkVisibility());
    const at = visible.indexOf(document.activeElement as HTMLElement);
    if (key === "ArrowDown") visible[Math.min(at + 1, visible.length - 1)]?.focus();
    else if (key === "ArrowUp") (at > 0 ? visible[at - 1] : search).focus();
    else choose(visible[Math.max(at, 0)]);
  };
  sheet.addEventListener("keydown", onKeyDown, { signal });
  list.addEventListener("click", (event) => choose(closest(event, "[data-method]")), { signal });
  search.addEventListener("input", draw, { signal });
  const onOpen = () => {
    if (!picker.node.open) return;
    search.value = "";
    early = null;
    draw();
    search.focus(); // in the click itself: keys typed right after it are for the search
  };
  picker.summary.addEventListener("click", onOpen, { signal });
  for (const event of ["pointerenter", "focus"]) picker.summary.addEventListener(event, request, { signal });
  picker.node.hidden = !live && !choices.get().method;
  if (!live) picker.node.classList.add("nbsal-disabled");
  method.mirror(draw);
  choices.mirror(draw);
  return picker.node;
}

const methodList = (label: string, rows: HTMLElement[]) =>
  h("div", { class: "nbsal-methods", role: "listbox", "aria-label": label }, ...rows);

function methodRow({ name, label, summary, cost, signed, unavailable }: MethodChoice, current: boolean) {
  const swatch = h("i", {
    class: signed ? "nbsal-swatch nbsal-two-sided" : "nbsal-swatch",
    title: signed ? "for and against" : "for only",
  });
  const properties = { class: "nbsal-method", role: "option", tabindex: -1, "data-method": name };
  return h(
    "div",
    { ...properties, "aria-selected": String(current), "aria-disabled": unavailable ? "true" : null },
    h("b", {}, label),
    h("span", { class: "nbsal-cost" }, cost, swatch),
    h("small", {}, unavailable || summary),
  );
}
