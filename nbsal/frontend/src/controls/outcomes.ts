// The classes with their probabilities; a click explains that class.

import { closest, h } from "../page/dom";
import type { Decision } from "../page/traits";
import { canExplain, classPicker, inRow } from "./class-picker";
import type { Side } from "./side";

type Explained = Pick<Decision, "probabilities" | "percentages" | "prediction" | "target">;

export function outcomes(side: Pick<Side, "target" | "choices">) {
  const { target } = side;
  let prediction = "";
  const explain = (name: string) =>
    target.set(target.get() === name || (target.get() === null && name === prediction) ? null : name);
  const onClick = (event: MouseEvent) => {
    const name = closest(event, "button")?.dataset.outcome;
    if (name !== undefined) explain(name);
  };
  const picker = classPicker(side, explain);
  const list = h("span", { class: "nbsal-listed-classes" });
  const properties = { class: "nbsal-classes", role: "group", "aria-label": "Explain" };
  const label = h("span", { class: "nbsal-quiet" }, "Explain");
  const node = h("div", { ...properties, signal: target.signal, click: onClick }, label, list, picker.node);

  const drawOutcome = (name: string, share: number, percentage: string, explained: string) => {
    const bar = h("i");
    bar.style.setProperty("--p", `${100 * share}%`);
    const content = [h("span", { class: "nbsal-name" }, name), bar, h("span", {}, percentage)];
    const state = { class: "nbsal-class nbsal-needs-python", "aria-pressed": String(name === explained) };
    if (!canExplain(side, name)) return h("span", { class: "nbsal-class" }, ...content);
    const title = name === prediction ? `Explain ${name}` : `Why not ${name}? Explain it instead`;
    return h("button", { ...state, title, "data-outcome": name }, ...content);
  };
  return {
    node,
    draw({ probabilities, percentages, ...explained }: Explained) {
      prediction = explained.prediction;
      node.hidden = !probabilities.length;
      const classes = probabilities.map(([name, share], i): [string, number, string] => [name, share, percentages[i]]);
      const listed = inRow(classes, ([name]) => name, explained.target);
      list.replaceChildren(...listed.map((each) => drawOutcome(...each, explained.target)));
      const named = classes.map(([name, , percentage]): [string, string] => [name, percentage]);
      picker.draw(named, explained.target, listed.length);
    },
  };
}
