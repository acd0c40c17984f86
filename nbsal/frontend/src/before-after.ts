// The classes as bars with a tick at the value before a change; a click explains that class.

import { closest, h } from "./dom";
import type { Side } from "./explainer-controls";
import { formatPercent } from "./format";
import { changeWords } from "./headline";

const LISTED = 6;

/** The probability of a class before some change, and now. */
export interface Change {
  name: string;
  before: number;
  now: number;
}

export function beforeAfter({ target, choices }: Pick<Side, "target" | "choices">) {
  let changes: Change[] = [];
  let explained = "";
  let unfolded = false;
  const onClick = (event: MouseEvent) => {
    const name = closest(event, "button")?.dataset.outcome;
    if (name !== undefined) target.set(name === explained ? null : name);
    else if (closest(event, ".nbsal-link")) {
      unfolded = true;
      draw();
    }
  };
  const properties = { class: "nbsal-changes", role: "group", "aria-label": "Explain" };
  const node = h("div", { ...properties, signal: target.signal, click: onClick });

  const drawName = (name: string) => {
    const { labels, task } = choices.get();
    const current = String(name === explained);
    if (!target.live || !(labels.includes(name) || task === "next-token"))
      return h("span", { class: "nbsal-class-name", "data-explained": current }, name);
    const title = name === explained ? `What speaks for ${name}` : `Why not ${name}? Explain it instead`;
    return h(
      "button",
      { class: "nbsal-class-name nbsal-needs-python", title, "data-outcome": name, "aria-pressed": current },
      name,
    );
  };
  const drawRow = ({ name, before, now }: Change) => {
    const changed = before !== now;
    const bar = h("i", { class: changed ? "nbsal-changed" : "" });
    bar.style.setProperty("--now", `${100 * now}%`);
    bar.style.setProperty("--before", `${100 * before}%`);
    const [first, second] = changeWords(before, now);
    const numbers = changed ? [`${first} \u2192 `, h("b", {}, second)] : [h("b", {}, formatPercent(now))];
    return [drawName(name), bar, h("span", {}, ...numbers)];
  };
  function draw() {
    const listed = unfolded || changes.length <= LISTED + 1 ? changes : changes.slice(0, LISTED);
    const more = changes.length - listed.length;
    const rest = more ? [h("button", { class: "nbsal-link" }, `${more} more\u2026`)] : [];
    node.replaceChildren(...listed.flatMap(drawRow), ...rest);
  }
  return {
    node,
    /** @param target the class that is explained */
    draw(next: Change[], target: string) {
      [changes, explained] = [next, target];
      draw();
    },
  };
}
