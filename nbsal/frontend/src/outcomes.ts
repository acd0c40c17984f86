// The classes with their probabilities; a click explains that class.

import { closest, h } from "./dom";
import type { Side } from "./explainer-controls";
import { formatPercent } from "./format";
import type { Decision } from "./traits";

type Explained = Pick<Decision, "probabilities" | "prediction" | "target">;

const LISTED = 6;

export function outcomes({ target, choices }: Pick<Side, "target" | "choices">) {
  let names: string[] = [];
  let unfolded = false;
  let latest: Explained | null = null;
  const onClick = (event: MouseEvent) => {
    const button = closest(event, "button");
    if (!button) return;
    const name = names[Number(button.dataset.outcome)];
    if (name === undefined) {
      unfolded = true;
      if (latest) draw(latest);
    } else target.set(target.get() === name || (target.get() === null && name === latest?.prediction) ? null : name);
  };
  const properties = { class: "nbsal-classes", role: "group", "aria-label": "Explain" };
  const node = h("div", { ...properties, signal: target.signal, click: onClick });

  const drawOutcome = (name: string, share: number, k: number, explained: Explained) => {
    const { labels, task } = choices.get();
    const bar = h("i");
    bar.style.setProperty("--p", `${100 * share}%`);
    const content = [h("span", { class: "nbsal-name" }, name), bar, h("span", {}, formatPercent(share))];
    const state = { class: "nbsal-class nbsal-needs-python", "aria-pressed": String(name === explained.target) };
    if (!target.live || !(labels.includes(name) || task === "next-token"))
      return h("span", { class: "nbsal-class" }, ...content);
    const predicted = name === explained.prediction;
    const title = predicted ? `What speaks for ${name}` : `Why not ${name}? Explain it instead`;
    return h("button", { ...state, title, "data-outcome": k }, ...content);
  };
  function draw(explained: Explained) {
    latest = explained;
    const { probabilities } = explained;
    names = probabilities.map(([name]) => name);
    node.hidden = !names.length;
    const listed = unfolded || names.length <= LISTED + 1 ? probabilities : probabilities.slice(0, LISTED);
    const pills = listed.map(([name, share], k) => drawOutcome(name, share, k, explained));
    const more = names.length - listed.length;
    const rest = more ? [h("button", { class: "nbsal-link" }, `${more} more\u2026`)] : [];
    node.replaceChildren(h("span", { class: "nbsal-quiet" }, "Explain"), ...pills, ...rest);
  }
  return { node, draw };
}
