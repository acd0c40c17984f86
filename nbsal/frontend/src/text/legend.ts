// How to read the colours: a ramp from against to for.

import { h } from "../page/dom";
import type { ColourScale } from "./colour";

const ENDS = ["against", "for"];
const ONE_SIDED = " (nothing shown against)";

export function legend() {
  const ramp = h("i", { class: "nbsal-ramp" });
  const low = h("span");
  const high = h("span", { class: "nbsal-word-for" });
  const unit = h("span", { class: "nbsal-unit nbsal-line" });
  const node = h(
    "span",
    { class: "nbsal-legend nbsal-invisible" }, // its room is kept
    low,
    ramp,
    high,
    unit,
  );
  return {
    node,
    /** @param negative whether any score is below zero
     *  @param strongest what 100 % is: the strongest word, or another name for it, and its score
     *  @param ends what full colour says, against and for */
    draw({ signed }: ColourScale, negative: boolean, [strongest, score = ""]: string[], ends = ENDS) {
      const twoSided = signed && negative;
      node.classList.remove("nbsal-invisible");
      low.className = twoSided ? "nbsal-word-against" : "";
      high.textContent = signed ? ends[1] : ends[1] + ONE_SIDED;
      low.textContent = twoSided ? ends[0] : "0\u202f%";
      ramp.classList.toggle("nbsal-one-sided", !twoSided);
      unit.textContent = strongest && `\u00b7 100 % = ${strongest}`;
      node.title = `${strongest} ${score}`.trim();
    },
  };
}
