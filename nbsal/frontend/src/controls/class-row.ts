// The classes in a row, likeliest first, and a picker of those that have no place in it; a press explains a class.

import { closest, h } from "../page/dom";
import { choiceGroup, choiceList, choiceRow } from "./choice-list";
import type { Side } from "./side";

const LISTED = 6; // classes in the row; one more is shown rather than listed
const TYPE = "type a part of the name";
const DRAWN = 200; // rows of the list; with more classes than that, one is found by its name

type Classes = Pick<Side, "target" | "choices">;
type Draw = (row: number, choice: (look: string, ...content: Node[]) => Node) => Node[];

/** @param look the class of the row */
export function classRow({ target, choices }: Classes, look: string, ...lead: Node[]) {
  const { live, signal } = target;
  let shares = new Map<string, string>();
  let explained = "";
  const names = () => [...new Set([...shares.keys(), ...(live ? choices.get().labels : [])])];
  const canExplain = (name: string) =>
    live && (choices.get().labels.includes(name) || choices.get().task === "next-token");
  /** Explain a class, or if it is explained already the prediction. */
  const explain = (name: string) => target.set(name === (target.get() ?? explained) ? null : name);
  const onClick = (event: MouseEvent) => {
    const name = closest(event, "button")?.dataset.outcome;
    if (name !== undefined) explain(name);
  };
  const pickerRow = (name: string) => {
    const share = h("span", { class: "nbsal-cost nbsal-small" }, shares.get(name) ?? "");
    return choiceRow(name, name === explained, !canExplain(name), h("b", {}, name), share);
  };
  const drawPicker = (query: string) => {
    const matches = names().filter((name) => name.toLowerCase().includes(query));
    const rest = matches.length - DRAWN;
    const note = rest > 0 ? [h("p", { class: "nbsal-quiet" }, `${rest} more \u00b7 ${TYPE}`)] : [];
    return [choiceGroup("Classes", matches.slice(0, DRAWN).map(pickerRow)), ...note];
  };
  const title = h("span");
  const settings = { search: "Find a class", draw: drawPicker, choose: explain };
  const looks = ["nbsal-plain", "nbsal-class-picker", "nbsal-needs-python"];
  const picker = choiceList(signal, [title], settings, ...looks);
  const list = h("span", { class: "nbsal-listed-classes" });
  const properties = { class: look, role: "group", "aria-label": "Explain" };
  const node = h("div", { ...properties, signal, click: onClick }, ...lead, list, picker.node);
  /** A class, as a button if it can be explained. */
  const choice = (name: string, usual: string, look: string, content: Node[]) => {
    const current = String(name === explained);
    if (!canExplain(name)) return h("span", { class: look, "data-explained": current }, ...content);
    const title = name === usual ? `Explain ${name}` : `Why not ${name}? Explain it instead`;
    const state = { class: `${look} nbsal-needs-python`, title, "aria-pressed": current };
    return h("button", { ...state, "data-outcome": name }, ...content);
  };
  return {
    node,
    /**
     * Draw the likeliest classes and the explained one, each by its place among all.
     * @param usual the class that is explained if none is chosen
     */
    draw(percentages: [string, string][], now: string, usual: string, draw: Draw) {
      [shares, explained] = [new Map(percentages), now];
      const first = percentages.length > LISTED + 1 ? LISTED : LISTED + 1;
      const listed = percentages.flatMap(([name], row) => (row < first || name === now ? [row] : []));
      list.replaceChildren(
        ...listed.flatMap((row) => draw(row, (look, ...content) => choice(percentages[row][0], usual, look, content))),
      );
      const more = names().length - listed.length;
      picker.node.hidden = more <= 0;
      title.textContent = `${more} more\u2026`;
      picker.redraw();
    },
  };
}
