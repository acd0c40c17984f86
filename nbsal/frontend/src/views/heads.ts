// A grid of attention heads, switched on and off by a click, and the attention of one of them.

import { attentionPane } from "../attention";
import { LINEAR } from "../colour";
import { bind, type Context } from "../context";
import { choice, slider, textEditor } from "../controls";
import { h, toolbar } from "../dom";
import { explainerControls, firstSide } from "../explainer-controls";
import { type Explanation, explanationReader, layoutCache, specialTokens } from "../explanation";
import { headGrid } from "../head-grid";
import { legend } from "../legend";
import { mount } from "../mount";
import { outcomes } from "../outcomes";
import { scoredText } from "../scored-text";
import type { HeadsTraits } from "../traits";

const KINDS = [
  { value: "both" as const, name: "Syntactic and positional" },
  { value: "syntactic" as const, name: "Syntactic" },
  { value: "positional" as const, name: "Positional" },
  { value: "none" as const, name: "None" },
];
const LETTERS = "S: syntactic, P: positional, B: both, U: selected for no stated reason; shaded: on";

/** The heads with their controls, and the attention of the selected one. */
export function heads(context: Context<HeadsTraits>) {
  const { get, on, set, live, signal } = context;
  const grid = headGrid(context);
  const attention = attentionPane(context);
  const reset = h("button", { signal, click: () => set({ toggled: [] }) }, "Reset");
  const range = { min: 0, max: 1, step: 0.05, title: "The least share of cases in which the head attends there" };
  const thresholds = [
    slider(bind(context, "synt"), "Syntax threshold", range),
    slider(bind(context, "pos"), "Position threshold", range),
  ];
  const draw = () => {
    for (const control of thresholds) control.hidden = !get("_heads").studied;
    reset.disabled = !live || !get("toggled").length;
    grid.draw();
  };
  on(["toggled"], draw);
  on(["head"], grid.draw);
  const kind = choice(bind(context, "kind"), "Heads on", () => KINDS);
  const node = h(
    "div",
    {},
    toolbar(kind, ...thresholds, reset),
    grid.node,
    grid.readout,
    h("div", { class: "nbsal-legend" }, h("span", { class: "nbsal-note" }, LETTERS)),
    attention.node,
  );
  return {
    node,
    draw(explanation: Explanation | null) {
      draw();
      attention.draw(explanation);
    },
  };
}

export default /* @__PURE__ */ mount<HeadsTraits>("heads", (context) => {
  const { get, root, on } = context;
  const side = firstSide(context);
  const read = explanationReader(context);
  const text = scoredText(context);
  const layOut = layoutCache(() => get("level"), [text]);
  const [colours, decision, pane] = [legend(), outcomes(side), heads(context)];
  const draw = () => {
    const explanation = read();
    pane.draw(explanation);
    if (!explanation) return;
    layOut(explanation);
    const [row] = explanation.rows;
    const { largest } = text.paint(row);
    colours.draw(largest, LINEAR, false, specialTokens(explanation.tokens, row));
    decision.draw(explanation);
  };
  on(["_rev"], draw);
  if (side.method.get()) {
    const controls = toolbar(...explainerControls(context, side, false));
    root.append(textEditor(bind(context, "text")), controls, decision.node, text.node, text.readout, colours.node);
  }
  root.append(pane.node);
  draw();
});
