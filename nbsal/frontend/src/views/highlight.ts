// A text with its words shaded by how much they speak for or against the decision, and the words by score.

import type { Context } from "../context";
import { SHADING } from "../display";
import { explanationReader } from "../explanation";
import { mount } from "../mount";
import { ranking } from "../ranking";
import { reading } from "../reading";
import type { HighlightTraits } from "../traits";
import { EXPLAINED, undo } from "../undo";

export default /* @__PURE__ */ mount<HighlightTraits>("highlight", (context: Context<HighlightTraits>) => {
  const { main, side, on } = context;
  const read = explanationReader(context);
  const [text, words] = [reading(context), ranking(context)];
  const draw = () => {
    const explanation = read();
    if (!explanation) return;
    const drawn = text.draw(explanation, explanation.rows[0]);
    words.draw(drawn.marks, drawn.words, explanation.unit);
  };
  on(["_rev", ...SHADING], draw);
  text.addTool(undo(context, EXPLAINED));
  main.append(...text.nodes);
  side.append(words.node);
  draw();
});
