// The classes with their probabilities, as pills.

import { h, percent } from "../page/dom";
import type { Decision } from "../page/traits";
import { classRow } from "./class-row";
import type { Side } from "./side";

type Explained = Pick<Decision, "probabilities" | "percentages" | "prediction" | "target">;

export function outcomes(side: Pick<Side, "target" | "choices">) {
  const row = classRow(side, "nbsal-classes", h("span", { class: "nbsal-quiet" }, "Explain"));
  return {
    node: row.node,
    draw({ probabilities, percentages, prediction, target }: Explained) {
      row.node.hidden = !probabilities.length;
      const named = probabilities.map(([name], i): [string, string] => [name, percentages[i]]);
      row.draw(named, target, prediction, (i, choice) => {
        const [name, share] = probabilities[i];
        const bar = h("i", { "--p": percent(share) });
        return [choice("nbsal-class", h("span", { class: "nbsal-name" }, name), bar, h("span", {}, percentages[i]))];
      });
    },
  };
}
