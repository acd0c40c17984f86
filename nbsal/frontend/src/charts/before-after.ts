// The classes as bars, with a tick at the value before a change.

import { classRow } from "../controls/class-row";
import type { Side } from "../controls/side";
import { h, percent } from "../page/dom";
import type { Change } from "../page/head-traits";

export function beforeAfter(side: Pick<Side, "target" | "choices">) {
  const row = classRow(side, "nbsal-changes");
  return {
    node: row.node,
    /** @param target the class that is explained */
    draw(changes: Change[], target: string) {
      const shares = changes.map(([name, , , , now]): [string, string] => [name, now]);
      row.draw(shares, target, target, (i, choice) => {
        const [name, before, now, first, second] = changes[i];
        const look = first ? "nbsal-changed" : "";
        const bar = h("i", { class: look, "--now": percent(now), "--before": percent(before) });
        const words = h("span", {}, first && `${first} \u2192 `, h("b", {}, second));
        return [choice("nbsal-class-name nbsal-line", h("span", {}, name)), bar, words];
      });
    },
  };
}
