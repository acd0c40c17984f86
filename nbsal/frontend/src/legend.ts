// How to read the colours: a ramp from against to for.

import type { ColourScale } from "./colour";
import { h } from "./dom";
import { formatScore } from "./format";

export function legend() {
  const ramp = h("i", { class: "nbsal-ramp" });
  const low = h("span");
  const node = h(
    "span",
    { class: "nbsal-legend nbsal-invisible" }, // its room is kept
    low,
    ramp,
    h("span", { class: "nbsal-word-for" }, "for"),
  );
  return {
    node,
    /** @param negative whether any score is below zero
     *  @param strongest the word with full colour */
    draw(largest: number, { signed, clip }: ColourScale, negative: boolean, strongest: string) {
      const twoSided = signed && negative;
      node.classList.remove("nbsal-invisible");
      low.className = twoSided ? "nbsal-word-against" : "";
      low.textContent = twoSided ? "against" : "0";
      ramp.classList.toggle("nbsal-one-sided", !twoSided);
      const clipped = clip < 1 ? `; full colour from ${Math.round(100 * clip)} % on` : "";
      node.title = `100 % = ${formatScore(largest)}${strongest && ` (${strongest})`}${clipped}`;
    },
  };
}
