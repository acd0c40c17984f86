// The choice of a method: about eight are recommended, the others are folded away; each says what it shows and costs.

import { closest, consume, h } from "./dom";
import type { Side } from "./explainer-controls";
import { popover } from "./popover";
import type { MethodChoice } from "./traits";

const GROUPS = [
  ["more", "More"],
  ["published", "As published"],
] as const;

export function methodPicker({ method, choices }: Pick<Side, "method" | "choices">) {
  const { signal, live } = method;
  const name = h("b");
  const search = h("input", { type: "search", placeholder: "Find a method", "aria-label": "Find a method", signal });
  const list = h("div");
  const sheet = h("div", {}, search, list);
  const title = [h("span", { class: "nbsal-quiet" }, "Method"), name];
  const picker = popover(signal, title, sheet, "nbsal-method-picker", "nbsal-needs-python");
  let rows: HTMLElement[] = [];

  const choose = (row: HTMLElement | null | undefined) => {
    if (!row || row.getAttribute("aria-disabled")) return;
    picker.close();
    picker.summary.focus();
    method.set(row.dataset.method ?? method.get());
  };
  const draw = () => {
    const { methods } = choices.get();
    const current = method.get();
    const choice = methods.find((entry) => entry.name === current);
    name.textContent = choice?.label ?? current;
    picker.summary.title = choice ? `${choice.name} (${choice.paper})` : current;
    if (!picker.node.open) return;
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
  const onKeyDown = (event: KeyboardEvent) => {
    const visible = rows.filter((row) => row.checkVisibility());
    const at = visible.indexOf(document.activeElement as HTMLElement);
    if (event.key === "ArrowDown") visible[Math.min(at + 1, visible.length - 1)]?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? visible[at - 1] : search).focus();
    else if (event.key === "Enter" && !closest(event, "summary")) choose(at < 0 ? visible[0] : visible[at]);
    else return;
    consume(event);
  };
  sheet.addEventListener("keydown", onKeyDown, { signal });
  list.addEventListener("click", (event) => choose(closest(event, "[data-method]")), { signal });
  search.addEventListener("input", draw, { signal });
  const onOpen = () => {
    if (!picker.node.open) return;
    search.value = "";
    draw();
    search.focus(); // in the click itself: keys typed right after it are for the search
  };
  picker.summary.addEventListener("click", onOpen, { signal });
  picker.node.hidden = !live && !choices.get().methods.length;
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
