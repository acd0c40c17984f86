// A text with its tokens shaded by how much they speak for or against the decision.

import { bind, type Context } from "../context";
import { colourScale, SHADING, shadingControls, textEditor } from "../controls";
import { toolbar } from "../dom";
import { explainerControls, firstSide } from "../explainer-controls";
import { explanationReader, layoutCache, specialTokens } from "../explanation";
import { legend } from "../legend";
import type { Mark } from "../marks";
import { minimap } from "../minimap";
import { mount } from "../mount";
import { outcomes } from "../outcomes";
import { LONG, scoredText } from "../scored-text";
import { search } from "../search";
import type { HighlightTraits } from "../traits";

/** The text with everything that explains and shades it. */
export function highlight(context: Context<HighlightTraits>) {
  const { get, on } = context;
  const read = explanationReader(context);
  const text = scoredText(context);
  const layOut = layoutCache(() => get("level"), [text]);
  const side = firstSide(context);
  const [colours, decision] = [legend(), outcomes(side)];
  let marks: Mark[] = [];
  const map = minimap(context, (share) => text.reveal(Math.round(share * (marks.length - 1))));
  const finder = search(context, text);

  const draw = () => {
    const explanation = read();
    if (!explanation) return;
    const before = marks;
    marks = layOut(explanation);
    if (marks !== before) finder.refresh();
    const [row] = explanation.rows;
    const scale = colourScale(context);
    const { scores, largest } = text.paint(row, scale);
    const negative = scores.some((score) => score < 0);
    colours.draw(largest, scale, negative, specialTokens(explanation.tokens, row));
    decision.draw(explanation);
    map.node.hidden = marks.length < LONG;
    if (!map.node.hidden) map.draw(scores, largest, scale);
  };
  on(["_rev", ...SHADING], draw);

  const nodes = [
    textEditor(bind(context, "text")),
    toolbar(...explainerControls(context, side)),
    decision.node,
    toolbar(...shadingControls(context), finder.node),
    map.node,
    text.node,
    text.readout,
    colours.node,
  ];
  return { nodes, draw };
}

export default /* @__PURE__ */ mount<HighlightTraits>("highlight", (context) => {
  const { nodes, draw } = highlight(context);
  context.root.append(...nodes);
  draw();
});
