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
  { value: "both" as const, name: "All heads in the mask" },
  { value: "syntactic" as const, name: "Syntactic" },
  { value: "positional" as const, name: "Positional" },
  { value: "none" as const, name: "None" },
];
const LETTERS =
  "S: syntactic, P: positional, B: syntactic and positional, U: in the mask, role not recorded; shaded: on";
const RANGE = { min: 0, max: 1, step: 0.05 };
const SYNTAX_TITLE =
  "Select heads whose strongest attention follows a syntactic relation in at least this share of its cases";
const POSITION_TITLE =
  "Select heads whose strongest attention goes to the same offset in at least this share of positions";

/** The heads with their controls, and the attention of the selected one. */
export function heads(context: Context<HeadsTraits>) {
  const { get, on, set, live, signal } = context;
  const grid = headGrid(context);
  const attention = attentionPane(context);
  const reset = h("button", { signal, click: () => set({ toggled: [] }) }, "Reset");
  const thresholds = [
    slider(bind(context, "synt"), "Syntax threshold", { ...RANGE, title: SYNTAX_TITLE }),
    slider(bind(context, "pos"), "Position threshold", { ...RANGE, title: POSITION_TITLE }),
  ];
  const draw = () => {
    for (const control of thresholds) control.hidden = !get("_heads").studied;
    reset.disabled = !live || !get("toggled").length;
    grid.draw();
  };
  on(["toggled"], draw);
  on(["head"], grid.draw);
  const kind = choice(bind(context, "kind"), "Heads switched on", () => KINDS);
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
