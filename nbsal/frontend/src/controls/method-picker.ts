// The choice of a method: about eight are recommended, the others are folded away; each says what it shows and costs.

import { h } from "../page/dom";
import type { MethodChoice } from "../page/traits";
import { choiceGroup, choiceList, choiceRow } from "./choice-list";
import { chosenMethod, methodLists } from "./method-lists";
import type { Side } from "./side";

const READING = "Reading the list of methods\u2026";

const GROUPS = [
  ["more", "More"],
  ["published", "As published"],
] as const;

export function methodPicker(side: Pick<Side, "method" | "choices" | "ask">) {
  const { method, choices, ask } = side;
  const { signal, live } = method;
  const name = h("b");
  const title = [h("span", { class: "nbsal-quiet" }, "Method"), name];
  const settings = { search: "Find a method", draw: drawList, choose: method.set };
  const picker = choiceList(signal, title, settings, "nbsal-method-picker", "nbsal-needs-python");
  let awaited = ""; // the list that was requested

  function drawList(query: string): Node[] {
    const current = method.get();
    const methods = methodLists().get(choices.get().methods);
    if (!methods) {
      request();
      return [h("p", { class: "nbsal-quiet" }, READING)];
    }
    const matches = methods.filter((entry) =>
      `${entry.name} ${entry.label} ${entry.summary}`.toLowerCase().includes(query),
    );
    const group = (key: MethodChoice["group"]) => matches.filter((entry) => entry.group === key);
    const list = (label: string, entries: MethodChoice[]) =>
      choiceGroup(
        label,
        entries.map((entry) => methodRow(entry, entry.name === current)),
      );
    const recommended = group("recommended");
    const folds = GROUPS.flatMap(([key, words]) => {
      const entries = group(key);
      if (!entries.length) return [];
      const open = query !== "" || entries.some((entry) => entry.name === current);
      const summary = h("summary", {}, `${words} (${entries.length})`);
      return [h("details", { class: "nbsal-more", open }, summary, list(`${words} methods`, entries))];
    });
    return [...(recommended.length ? [list("Recommended methods", recommended)] : []), ...folds];
  }
  const draw = () => {
    const choice = chosenMethod(side);
    name.textContent = choice?.label ?? method.get();
    picker.summary.title = choice ? `${choice.name} (${choice.paper})` : method.get();
    picker.redraw();
  };
  const request = async () => {
    const { methods } = choices.get();
    if (!live || methods === awaited || methodLists().has(methods)) return;
    awaited = methods;
    const list = await ask("methods", { key: methods });
    if (list) methodLists().set(methods, list);
    else picker.close();
    awaited = "";
    draw();
  };
  for (const event of ["pointerenter", "focus"]) picker.summary.addEventListener(event, request, { signal });
  picker.node.hidden = !live && !choices.get().method;
  if (!live) picker.node.classList.add("nbsal-disabled");
  method.mirror(draw);
  choices.mirror(draw);
  return picker.node;
}

function methodRow({ name, label, summary, cost, signed, unavailable }: MethodChoice, current: boolean) {
  const swatch = h("i", {
    class: signed ? "nbsal-swatch nbsal-two-sided" : "nbsal-swatch",
    title: signed ? "evidence for and against" : "evidence for, none against",
  });
  return choiceRow(
    name,
    current,
    unavailable !== "",
    h("b", {}, label),
    h("span", { class: "nbsal-cost nbsal-small" }, cost, swatch),
    h("small", {}, unavailable || summary),
  );
}
