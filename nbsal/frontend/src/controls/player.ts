// A button that plays step after step, and a slider over the steps.

import { h, onAbort, stopPropagation } from "../page/dom";

const INTERVAL = 600; // ms from step to step

interface Steps {
  /** The current step and the last one. */
  position(): number;
  last(): number;
  move(position: number): void;
}

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Without motion the button makes one step. */
export function player({ position, last, move }: Steps, signal: AbortSignal) {
  let timer: ReturnType<typeof setInterval> | undefined;
  const pause = () => {
    clearInterval(timer);
    timer = undefined;
    drawButton();
  };
  const advance = () => {
    move(Math.min(position() + 1, last()));
    if (position() >= last()) pause();
  };
  const toggle = () => {
    if (timer !== undefined) return pause();
    if (position() >= last()) move(0);
    else advance();
    if (calm() || position() >= last()) return;
    timer = setInterval(advance, INTERVAL);
    drawButton();
  };
  const button = h("button", { class: "nbsal-play-button", signal, click: toggle });
  const drawButton = () => {
    const playing = timer !== undefined;
    button.setAttribute("aria-label", playing ? "Pause" : calm() ? "Next step" : "Play");
    button.classList.toggle("nbsal-playing", playing);
  };
  const onInput = () => {
    pause();
    move(slider.valueAsNumber);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== " ") stopPropagation(event);
  };
  const slider = h("input", { type: "range", min: 0, step: 1, signal, input: onInput, keydown: onKeyDown });
  const count = h("output");
  onAbort(signal, () => clearInterval(timer));
  drawButton();
  return {
    node: h("div", { class: "nbsal-player" }, button, slider, count),
    toggle,
    pause,
    /** @param label what the slider counts */
    draw(label: string, text: string) {
      button.disabled = slider.disabled = last() === 0;
      slider.max = String(last());
      slider.value = String(position());
      slider.setAttribute("aria-label", label);
      slider.setAttribute("aria-valuetext", text);
      count.textContent = text;
    },
  };
}
