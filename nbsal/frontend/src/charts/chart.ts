// A line chart with bands, and a position on it that is dragged or moved by keys. The drawing stretches, words do not.

import { consume, h, percent } from "../page/dom";
import { clamp, nextItem } from "../page/keyboard";
import { s } from "../page/svg";
import { type Axes, bandPath, fromTop, type Line, linePath, nearest, SIZE } from "./chart-geometry";

export interface Chart {
  lines: Line[];
  /** The shares at which the position may stand. */
  steps: number[];
  /** The index of the current step. */
  position: number;
  axes: Axes;
  /** Whether above half one class is predicted and below half the other. */
  halved: boolean;
  yLabel: string;
  /** What bands show. */
  bandLabel: string;
  /** The current step in a few words. */
  tag: string;
}

const HUES = 5; // styles of curves in chart.css
const DASHES = ["", "7 3", "2 3", "8 3 2 3"];

export function lineChart({ signal }: { signal: AbortSignal }, moveTo: (position: number) => void) {
  let chart: Chart | null = null;
  let dragging = false;

  const moveToPointer = (event: PointerEvent) => {
    if (!chart) return;
    const { left, width } = plot.getBoundingClientRect();
    moveTo(nearest(chart.steps, (event.clientX - left) / width));
  };
  const onPointerDown = (event: PointerEvent) => {
    dragging = true;
    plot.setPointerCapture(event.pointerId);
    moveToPointer(event);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!chart) return;
    const count = chart.steps.length;
    const position = nextItem(event, chart.position, count, { line: (from, down) => clamp(from - down, count) });
    if (position === null) return;
    moveTo(position);
    consume(event);
  };
  const [drawing, places, tag] = [h("div"), h("div"), h("span", { class: "nbsal-tag nbsal-line" })];
  const here = h("span", { class: "nbsal-here", hidden: true });
  const plot = h(
    "div",
    {
      class: "nbsal-plot",
      role: "slider",
      tabindex: 0,
      "aria-valuemin": 0,
      "aria-valuenow": 0,
      signal,
      pointerdown: onPointerDown,
      pointermove: (event) => dragging && moveToPointer(event),
      pointerup: () => (dragging = false),
      pointercancel: () => (dragging = false),
      keydown: onKeyDown,
    },
    drawing,
    places,
    here,
  );
  const [values, shares] = [h("div", { class: "nbsal-values" }), h("div", { class: "nbsal-shares" })];
  const xLabel = h("div", { class: "nbsal-x-label nbsal-line" });
  const node = h("div", { class: "nbsal-chart nbsal-small nbsal-invisible" }, tag, values, plot, shares, xLabel);
  const legend = h("div", { class: "nbsal-key nbsal-small" });

  /** Move the position without drawing the curves again. */
  const place = ({ axes, steps, lines, position }: Chart) => {
    const [share, y] = [steps[position], fromTop(lines[0].values[position], axes)];
    plot.style.setProperty("--x", `${100 * share}%`);
    plot.style.setProperty("--y", `${100 * y}%`);
    here.hidden = false;
  };

  return {
    node,
    legend,
    /** Mark shares of the width on the lower edge. */
    mark(marked: number[]) {
      places.replaceChildren(...marked.map((share) => h("span", { class: "nbsal-place", "--at": percent(share) })));
    },
    draw(next: Chart) {
      const { axes, lines, steps, yLabel } = next;
      const same = chart?.lines === lines;
      node.classList.remove("nbsal-invisible");
      chart = next;
      place(next);
      tag.textContent = next.tag;
      plot.setAttribute("aria-valuenow", String(next.position));
      plot.setAttribute("aria-valuetext", next.tag);
      if (same) return;
      drawing.replaceChildren(drawSvg(next));
      plot.setAttribute("aria-label", `${yLabel}, ${axes.label}`);
      plot.setAttribute("aria-valuemax", String(steps.length - 1));
      values.replaceChildren(...axes.values.map((words, i, { length }) => tickLabel(i / (length - 1), words)));
      shares.replaceChildren(...axes.ticks.map((tick) => tickLabel(...tick)));
      xLabel.textContent = axes.label;
      const band = h("span", {}, h("i", { class: "nbsal-band-sample" }), next.bandLabel);
      legend.replaceChildren(...lines.map(legendItem), lines.some((line) => line.low) ? band : "");
    },
  };
}

const tickLabel = (share: number, words: string) => h("span", { "--at": percent(share) }, words);

function drawSvg({ lines, halved, axes }: Chart) {
  const svg = s("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const y of [0, SIZE / 2, SIZE]) {
    const half = y === SIZE / 2 && halved;
    svg.append(s("line", { class: half ? "nbsal-half" : "nbsal-rule", x1: 0, x2: SIZE, y1: y, y2: y }));
  }
  for (const [i, line] of lines.entries())
    if (line.low) svg.append(s("path", { class: `nbsal-band ${hue(line, i)}`, d: bandPath(line, axes) }));
  for (const [i, line] of [...lines.entries()].reverse())
    svg.append(curve(line, i, linePath(line.at, line.values, axes)));
  return svg;
}

const hue = ({ random }: Line, i: number) => (random ? "nbsal-random" : `nbsal-line-${i % HUES}`);

const curve = (line: Line, i: number, d: string) =>
  s("path", {
    class: `nbsal-curve ${hue(line, i)}`,
    "stroke-dasharray": line.random ? "5 4" : DASHES[i % DASHES.length],
    d,
  });

/** A line's name with a sample of the line. */
function legendItem(line: Line, i: number) {
  const svg = s("svg", { width: 24, height: 8, "aria-hidden": "true" }, curve(line, i, "M0 4L24 4"));
  return h("span", { title: line.title }, svg, line.name);
}
