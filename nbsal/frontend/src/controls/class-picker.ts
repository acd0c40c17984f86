// All classes with a search, where not all of them have a place in a row.

import { h } from "../page/dom";
import { choiceGroup, choiceList, choiceRow } from "./choice-list";
import type { Side } from "./side";

/** Classes in a row; one more is shown rather than listed. */
const LISTED = 6;
const TYPE = "type a part of the name";
const DRAWN = 200; // rows of the list; with more classes than that, one is found by its name

type Classes = Pick<Side, "target" | "choices">;

/** Whether a class can be explained instead. */
export const canExplain = ({ target, choices }: Classes, name: string) =>
  target.live && (choices.get().labels.includes(name) || choices.get().task === "next-token");

/** The classes in the row, the likeliest and the explained one; the others are in the picker. */
export function inRow<Entry>(entries: Entry[], nameOf: (entry: Entry) => string, explained: string): Entry[] {
  const first = entries.slice(0, entries.length > LISTED + 1 ? LISTED : LISTED + 1);
  return [...first, ...entries.slice(first.length).filter((entry) => nameOf(entry) === explained)];
}

/** @param explain explains a class, or if it is explained already the prediction */
export function classPicker(side: Classes, explain: (name: string) => void) {
  let shares: Map<string, string> = new Map();
  let explained = "";
  const names = () => [...new Set([...shares.keys(), ...(side.target.live ? side.choices.get().labels : [])])];
  const row = (name: string) => {
    const share = h("span", { class: "nbsal-cost" }, shares.get(name) ?? "");
    return choiceRow(name, name === explained, !canExplain(side, name), h("b", {}, name), share);
  };
  const draw = (query: string) => {
    const matches = names().filter((name) => name.toLowerCase().includes(query));
    const rest = matches.length - DRAWN;
    const note = rest > 0 ? [h("p", { class: "nbsal-quiet" }, `${rest} more \u00b7 ${TYPE}`)] : [];
    return [choiceGroup("Classes", matches.slice(0, DRAWN).map(row)), ...note];
  };
  const title = h("span");
  const settings = { search: "Find a class", draw, choose: explain };
  const picker = choiceList(
    side.target.signal,
    [title],
    settings,
    "nbsal-plain",
    "nbsal-class-picker",
    "nbsal-needs-python",
  );
  return {
    node: picker.node,
    /** @param percentages of the classes, those with a place of their own first; there are `listed` of them */
    draw(percentages: [string, string][], target: string, listed: number) {
      [shares, explained] = [new Map(percentages), target];
      const more = names().length - listed;
      picker.node.hidden = more <= 0;
      title.textContent = `${more} more\u2026`;
      picker.redraw();
    },
  };
}
