// The model's decision: a bar for each class with its probability; a click explains that class.

import { closest, h } from "./dom";
import type { Side } from "./explainer-controls";
import { formatPercent } from "./format";
import type { Decision } from "./traits";

type Explained = Pick<Decision, "probabilities" | "prediction" | "target">;

export function outcomes({ target, choices }: Pick<Side, "target" | "choices">) {
  let names: string[] = [];
  const onClick = (event: MouseEvent) => {
    const button = closest(event, "button");
    if (!button) return;
    const name = names[Number(button.dataset.outcome)];
    target.set(target.get() === name ? null : name);
  };
  const properties = { class: "nbsal-outcomes", role: "group", "aria-label": "Prediction" };
  const node = h("div", { ...properties, signal: target.signal, click: onClick });

  const drawOutcome = (name: string, share: number, k: number, explained: Explained) => {
    const { labels, task } = choices.get();
    const bar = h("span", { class: "nbsal-bar" });
    bar.style.width = `${100 * share}%`;
    const percent = h("span", { class: "nbsal-share" }, formatPercent(share));
    const content = [h("span", { class: "nbsal-name" }, name), percent, bar];
    const kind = name === explained.prediction ? "nbsal-outcome nbsal-predicted" : "nbsal-outcome";
    if (!target.live || !(labels.includes(name) || task === "next-token")) return h("div", { class: kind }, ...content);
    const state = { "aria-pressed": String(name === explained.target), "data-outcome": k };
    return h("button", { class: kind, title: `Explain ${name}`, ...state }, ...content);
  };
  return {
    node,
    draw(explained: Explained) {
      const { probabilities, prediction } = explained;
      names = probabilities.map(([name]) => name);
      const bars = probabilities.map(([name, share], k) => drawOutcome(name, share, k, explained));
      // The target of a span also says where it stands: "in 1889 [3:5]".
      const same = explained.target === prediction || (!bars.length && explained.target.startsWith(`${prediction} [`));
      const parts = [!bars.length && `Prediction: ${prediction}`, !same && `Target: ${explained.target}`];
      const text = parts.filter(Boolean).join(", ");
      node.replaceChildren(...bars, ...(text ? [h("span", {}, text)] : []));
    },
  };
}
