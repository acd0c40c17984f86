// A minimap: where in a long text the scores lie; a click or an arrow key goes there.

import { consume, h } from "../page/dom";
import type { ColourScale } from "./colour";
import { bins } from "./layout";

const BINS = 120;
const STEPS: Record<string, number> = { ArrowRight: 0.01, ArrowLeft: -0.01, PageDown: 0.1, PageUp: -0.1 };

export function minimap({ signal }: { signal: AbortSignal }, goTo: (share: number) => void) {
  let position = 0; // share of the text
  const moveTo = (share: number) => {
    position = Math.max(0, Math.min(1, share));
    node.setAttribute("aria-valuenow", String(Math.round(100 * position)));
    goTo(position);
  };
  const onClick = (event: MouseEvent) => {
    const { left, width } = node.getBoundingClientRect();
    moveTo((event.clientX - left) / width);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!(event.key in STEPS)) return;
    moveTo(position + STEPS[event.key]);
    consume(event);
  };
  const node = h("div", {
    class: "nbsal-minimap",
    hidden: true, // short texts need none
    role: "slider",
    tabindex: 0,
    "aria-label": "Where in the text the large scores are",
    "aria-valuemin": 0,
    "aria-valuemax": 100,
    "aria-valuenow": 0,
    signal,
    click: onClick,
    keydown: onKeyDown,
  });
  return {
    node,
    draw(scores: number[], largest: number, { clip }: ColourScale) {
      const bars = bins(scores, BINS).map((score) => {
        const bar = h("span");
        bar.style.height = `${Math.round(100 * Math.min(1, Math.abs(score) / (largest * clip || 1)))}%`;
        bar.className = score < 0 ? "nbsal-against" : "";
        return bar;
      });
      node.replaceChildren(...bars);
    },
  };
}
