// The hiding curve of an answer: the probability of the reply as parts of the sources are hidden, best first.

import { lineChart } from "../charts/chart";
import type { AnswersTraits } from "../page/answer-traits";
import type { Context } from "../page/context";
import { panel as section } from "../page/dom";
import type { AnswerData } from "./answer-data";
import { fold } from "./fold";

export function curvePanel(context: Context<AnswersTraits>, onMove: () => void) {
  const { get } = context;
  let position = 0;
  const chart = lineChart(context, (next) => {
    position = next;
    draw();
    onMove();
  });
  const { node, heading, note } = section("nbsal-evidence", chart.node, chart.legend);
  function draw() {
    const { lines, axes, tags = [], finding = "", band = "", quantity: yLabel = "" } = get("_curve");
    if (!lines || !axes) return;
    const steps = lines[0].at;
    position = Math.min(position, steps.length - 1);
    heading.textContent = finding;
    note.textContent = get("_curve").note ?? "";
    chart.draw({ lines, steps, position, axes, halved: false, yLabel, bandLabel: band, tag: tags[position] });
  }
  const panel = fold<AnswerData>(context, {
    name: "curve",
    title: "Hiding the sources, highest score first",
    panel: { node, draw },
    computed: () => Boolean(get("_curve").lines),
    reason: () => [get("_curve").why ?? ""].filter(Boolean),
  });
  return {
    node: panel.node,
    draw: panel.draw,
    /** The tokens that are hidden at the position on the curve, while the panel is open. */
    hidden: () => (get("panels").includes("curve") ? (get("_curve").order ?? []).slice(0, position).flat() : []),
  };
}
