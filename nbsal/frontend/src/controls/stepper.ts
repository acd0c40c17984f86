// A number with buttons for the next smaller and the next larger one.

import type { Binding } from "../page/context";
import { h } from "../page/dom";
import { clamp } from "../page/keyboard";

interface Range {
  step: number;
  least: number;
  most: number;
}

export function stepper(
  { name, get, set, mirror, live, signal }: Binding<number>,
  label: string,
  [fewer, more]: [string, string],
  { step, least, most }: Range,
) {
  const go = (by: 1 | -1) => () => {
    const next = (by > 0 ? Math.floor(get() / step) + 1 : Math.ceil(get() / step) - 1) * step;
    set(Math.max(least, clamp(next, most + 1)));
  };
  const down = h("button", { "aria-label": fewer, signal, click: go(-1) }, "\u2212");
  const up = h("button", { "aria-label": more, signal, click: go(1) }, "+");
  const value = h("output", { "data-trait": name });
  mirror(() => {
    value.textContent = String(get());
    down.disabled = get() <= least;
    up.disabled = get() >= most;
  });
  const properties = { class: "nbsal-stepper nbsal-needs-python", role: "group", "aria-label": label, hidden: !live };
  return h("span", properties, h("span", {}, label), down, value, up);
}
