// The classes as bars with a tick at the value before a change; a click explains that class.

import { canExplain, classPicker, inRow } from "../controls/class-picker";
import type { Side } from "../controls/side";
import { closest, h } from "../page/dom";
import type { Change } from "../page/head-traits";

export function beforeAfter(side: Pick<Side, "target" | "choices">) {
  let explained = "";
  const explain = (name: string) => side.target.set(name === explained ? null : name);
  const onClick = (event: MouseEvent) => {
    const name = closest(event, "button")?.dataset.outcome;
    if (name !== undefined) explain(name);
  };
  const picker = classPicker(side, explain);
  const rows = h("span", { class: "nbsal-listed-classes" });
  const properties = { class: "nbsal-changes", role: "group", "aria-label": "Explain" };
  const node = h("div", { ...properties, signal: side.target.signal, click: onClick }, rows, picker.node);

  const drawName = (name: string) => {
    const current = String(name === explained);
    if (!canExplain(side, name)) return h("span", { class: "nbsal-class-name", "data-explained": current }, name);
    const title = name === explained ? `Explain ${name}` : `Why not ${name}? Explain it instead`;
    return h(
      "button",
      { class: "nbsal-class-name nbsal-needs-python", title, "data-outcome": name, "aria-pressed": current },
      name,
    );
  };
  const drawRow = ([name, before, now, first, second]: Change) => {
    const bar = h("i", { class: first && "nbsal-changed" });
    bar.style.setProperty("--now", `${100 * now}%`);
    bar.style.setProperty("--before", `${100 * before}%`);
    return [drawName(name), bar, h("span", {}, first && `${first} \u2192 `, h("b", {}, second))];
  };
  return {
    node,
    /** @param target the class that is explained */
    draw(changes: Change[], target: string) {
      explained = target;
      const listed = inRow(changes, ([name]) => name, target);
      rows.replaceChildren(...listed.flatMap(drawRow));
      const shares = changes.map(([name, , , , now]): [string, string] => [name, now]);
      picker.draw(shares, target, listed.length);
    },
  };
}
