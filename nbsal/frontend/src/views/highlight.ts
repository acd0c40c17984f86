// A text with its words shaded by how much they speak for or against the decision, and the words by score.

import { SHADING } from "../controls/display";
import { EXPLAINED, undo } from "../controls/undo";
import type { Context } from "../page/context";
import { mount } from "../page/mount";
import type { HighlightTraits } from "../page/traits";
import { ranking } from "../panels/ranking";
import { type Explanation, explanationReader } from "../text/explanation";
import { reading } from "../text/reading";

export default /* @__PURE__ */ mount<HighlightTraits>("highlight", (context: Context<HighlightTraits>) => {
  const { get, main, side, on } = context;
  const read = explanationReader(context);
  const [text, words] = [reading(context), ranking(context)];
  let explanation: Explanation | null = null;
  const drawWords = () => {
    if (explanation) words.draw(explanation.legends[0].ranked[get("level")], explanation.unit, text.alone());
  };
  const draw = () => {
    explanation = read();
    if (explanation) text.draw(explanation, explanation.rows[0]);
    drawWords();
  };
  on(["_rev", ...SHADING], draw);
  on(["_statements"], drawWords);
  text.addTool(undo(context, EXPLAINED));
  main.append(...text.nodes);
  side.append(words.node);
  draw();
});
