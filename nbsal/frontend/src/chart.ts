// A line chart with bands, and a position on it that is dragged or moved by keys.

import { bandPath, HEIGHT, type Line, linePath, MARGIN, nearest, plot } from "./chart-geometry";
import { consume, h, onAbort } from "./dom";
import { clamp, nextItem } from "./keyboard";
import { s } from "./svg";

export interface Chart {
  lines: Line[];
  /** The shares at which the position may stand. */
  steps: number[];
  /** The index of the current step. */
  position: number;
  /** The value at the current step. */
  value: number;
  /** Whether values are probabilities. */
  probable: boolean;
  xLabel: string;
  yLabel: string;
  /** What bands show. */
  bandLabel: string;
  /** The current step in words. */
  text: string;
}

const DASHES = ["", "6 3", "2 3", "8 3 2 3"];

export function lineChart({ signal }: { signal: AbortSignal }, moveTo: (position: number) => void) {
  let chart: Chart | null = null;
  let width = 600;
  let dragging = false;

  const moveToPointer = (event: PointerEvent) => {
    if (!chart) return;
    const { left } = node.getBoundingClientRect();
    const share = (event.clientX - left - MARGIN.left) / (width - MARGIN.left - MARGIN.right);
    moveTo(nearest(chart.steps, share));
  };
  const onPointerDown = (event: PointerEvent) => {
    dragging = true;
    node.setPointerCapture(event.pointerId);
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
  const node = h("div", {
    class: "nbsal-chart",
    role: "slider",
    tabindex: 0,
    "aria-valuemin": 0,
    signal,
    pointerdown: onPointerDown,
    pointermove: (event) => dragging && moveToPointer(event),
    pointerup: () => (dragging = false),
    pointercancel: () => (dragging = false),
    keydown: onKeyDown,
  });
  const legend = h("div", { class: "nbsal-legend" });

  const draw = () => {
    if (!chart) return;
    const { lines, steps, position, xLabel, yLabel, bandLabel, text } = chart;
    node.replaceChildren(drawSvg(chart, width));
    node.setAttribute("aria-label", `${yLabel}, ${xLabel}`);
    node.setAttribute("aria-valuemax", String(steps.length - 1));
    node.setAttribute("aria-valuenow", String(position));
    node.setAttribute("aria-valuetext", text);
    legend.replaceChildren(
      ...lines.map(legendItem),
      lines.some((line) => line.low) ? h("span", { class: "nbsal-note" }, bandLabel) : "",
    );
  };
  const resizeObserver = new ResizeObserver(() => {
    if (!node.clientWidth || node.clientWidth === width) return;
    width = node.clientWidth;
    draw();
  });
  resizeObserver.observe(node);
  onAbort(signal, () => resizeObserver.disconnect());

  return {
    node,
    legend,
    draw(next: Chart) {
      chart = next;
      draw();
    },
  };
}

function drawSvg({ lines, steps, position, value, probable, xLabel, yLabel }: Chart, width: number) {
  const axes = plot(lines, width, probable);
  const { x, y, low, high } = axes;
  const svg = s("svg", { width, height: HEIGHT, "aria-hidden": "true" });
  for (const share of [0, 0.5, 1]) {
    const tick = low + share * (high - low);
    svg.append(
      s("line", { class: "nbsal-gridline", x1: x(0), x2: x(1), y1: y(tick), y2: y(tick) }),
      s("text", { x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, tick.toPrecision(2)),
      s("text", { x: x(share), y: HEIGHT - 18, "text-anchor": "middle" }, `${100 * share}%`),
    );
  }
  svg.append(
    s("text", { x: x(0.5), y: HEIGHT - 4, "text-anchor": "middle" }, xLabel),
    s("text", { x: 4, y: 12 }, yLabel),
  );
  for (const [i, line] of lines.entries()) {
    if (line.low) svg.append(s("path", { class: `nbsal-band nbsal-line-${i % 6}`, d: bandPath(line, axes) }));
    svg.append(curve(i, linePath(line.at, line.values, axes)));
  }
  const here = x(steps[position]);
  svg.append(
    s("line", { class: "nbsal-position", x1: here, x2: here, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }),
    s("circle", { class: "nbsal-position", cx: here, cy: y(value), r: 6 }),
  );
  return svg;
}

const curve = (i: number, d: string) =>
  s("path", { class: `nbsal-curve nbsal-line-${i % 6}`, "stroke-dasharray": DASHES[i % DASHES.length], d });

/** A line's name with a sample of the line. */
function legendItem({ name, area }: Line, i: number) {
  const svg = s("svg", { width: 26, height: 12, "aria-hidden": "true" }, curve(i, "M0 6L26 6"));
  return h("span", { class: "nbsal-legend-item" }, svg, `${name}, AUC ${area.toFixed(3)}`);
}
