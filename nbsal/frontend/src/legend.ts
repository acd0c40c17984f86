// The legend of the colours: a few values with their shades, and a note.

import { type ColourScale, shade } from "./colour";
import { h } from "./dom";
import { formatScore } from "./format";

/** @param quantity what the colours stand for */
export function legend(quantity = "Score") {
  const steps = h("span", { class: "nbsal-steps" });
  const rest = h("span", { class: "nbsal-note" });
  return {
    node: h("div", { class: "nbsal-legend" }, steps, rest),
    /** @param negative whether any value is below zero */
    draw(largest: number, scale: ColourScale, negative: boolean, ...notes: string[]) {
      const signed = negative && scale.signed;
      const boxes = [...(signed ? [-1, -0.5] : []), 0, 0.5, 1].map((share) => {
        const value = share * largest * scale.clip;
        const box = h("span", {}, formatScore(value));
        const { css, against } = shade(value, largest, scale);
        box.style.backgroundColor = css;
        box.classList.toggle("nbsal-against", against);
        return box;
      });
      steps.replaceChildren(`${quantity} `, ...boxes);
      rest.textContent = [signed && "orange: for the target, blue: against it", ...notes].filter(Boolean).join("; ");
    },
  };
}
