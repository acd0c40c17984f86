// @ts-check
// Chart: curves with bands on one scale, and a place on them that is dragged or moved by keys.

import { band, EDGE, frame, HIGH, path } from "./curve.js";
import { ended, h, taken } from "./dom.js";
import { step } from "./keys.js";
import { s } from "./svg.js";

/** @typedef {import("./curve.js").Line} Line */
/** @typedef {{ lines: Line[], steps: number[], place: number, probable: boolean, across: string, up: string, text: string,
 *   mark: number, shaded: string }} Drawing `steps` are shares where one may stop, `place` is the one that is shown, `mark` its height,
 * `shaded` says what bands are */

const DASHES = ["", "6 3", "2 3", "8 3 2 3"];

/**
 * @param {{ signal: AbortSignal }} context
 * @param {(place: number) => void} go
 */
export function chart({ signal }, go) {
  /** @type {Drawing | null} */
  let drawn = null;
  let width = 600;
  let dragging = false;

  const at = (/** @type {PointerEvent} */ event) => {
    if (!drawn) return;
    const { left } = box.getBoundingClientRect();
    const share = (event.clientX - left - EDGE.left) / (width - EDGE.left - EDGE.right);
    const gaps = drawn.steps.map((one) => Math.abs(one - share));
    go(gaps.indexOf(Math.min(...gaps)));
  };
  const began = (/** @type {PointerEvent} */ event) => {
    dragging = true;
    box.setPointerCapture(event.pointerId);
    at(event);
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (!drawn) return;
    const line = (/** @type {number} */ from, /** @type {number} */ way) =>
      Math.max(0, Math.min(/** @type {Drawing} */ (drawn).steps.length - 1, from - way));
    const next = step(event, drawn.place, drawn.steps.length, { line });
    if (next === null) return;
    go(next);
    taken(event);
  };
  const box = h("div", {
    class: "nbsal-chart",
    role: "slider",
    tabindex: 0,
    "aria-valuemin": 0,
    signal,
    pointerdown: began,
    pointermove: (/** @type {PointerEvent} */ event) => dragging && at(event),
    pointerup: () => (dragging = false),
    pointercancel: () => (dragging = false),
    keydown: pressed,
  });
  const key = h("div", { class: "nbsal-legend" });

  const draw = () => {
    if (!drawn) return;
    const { lines, steps, place, probable, across, up, text, mark, shaded } = drawn;
    const place_ = frame(lines, width, probable);
    const { x, y, low, high } = place_;
    const svg = s("svg", { width, height: HIGH, "aria-hidden": "true" });
    for (const share of [0, 0.5, 1]) {
      const value = low + share * (high - low);
      svg.append(
        s("line", { class: "nbsal-rule", x1: x(0), x2: x(1), y1: y(value), y2: y(value) }),
        s("text", { x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, value.toPrecision(2)),
        s("text", { x: x(share), y: HIGH - 18, "text-anchor": "middle" }, `${100 * share}%`),
      );
    }
    svg.append(s("text", { x: x(0.5), y: HIGH - 4, "text-anchor": "middle" }, across), s("text", { x: 4, y: 12 }, up));
    for (const [i, line] of lines.entries()) {
      const name = `nbsal-line-${i % 6}`;
      if (line.low) svg.append(s("path", { class: `nbsal-band ${name}`, d: band(line, place_) }));
      const dashes = DASHES[i % DASHES.length];
      svg.append(
        s("path", { class: `nbsal-curve ${name}`, "stroke-dasharray": dashes, d: path(line.at, line.values, place_) }),
      );
    }
    const here = x(steps[place]);
    svg.append(
      s("line", { class: "nbsal-here", x1: here, x2: here, y1: EDGE.top, y2: HIGH - EDGE.bottom }),
      s("circle", { class: "nbsal-here", cx: here, cy: y(mark), r: 6 }),
    );
    box.replaceChildren(svg);
    box.setAttribute("aria-label", `${up}, ${across}`);
    box.setAttribute("aria-valuemax", String(steps.length - 1));
    box.setAttribute("aria-valuenow", String(place));
    box.setAttribute("aria-valuetext", text);
    key.replaceChildren(
      ...lines.map(sample),
      lines.some((line) => line.low) ? h("span", { class: "nbsal-rest" }, shaded) : "",
    );
  };
  const resized = new ResizeObserver(() => {
    if (!box.clientWidth || box.clientWidth === width) return;
    width = box.clientWidth;
    draw();
  });
  resized.observe(box);
  ended(signal, () => resized.disconnect());

  return {
    node: box,
    key,
    /** @param {Drawing} given */
    draw(given) {
      drawn = given;
      draw();
    },
  };
}

/** A line's name with a piece of it. @param {Line} line @param {number} i */
function sample({ name, area }, i) {
  const dashes = DASHES[i % DASHES.length];
  const piece = s("path", { class: `nbsal-curve nbsal-line-${i % 6}`, "stroke-dasharray": dashes, d: "M0 6L26 6" });
  const svg = s("svg", { width: 26, height: 12, "aria-hidden": "true" }, piece);
  return h("span", { class: "nbsal-sample" }, svg, `${name}, area ${area.toFixed(3)}`);
}
