// @ts-check
// Highlight: a text with its tokens shaded by what they say for or against the decision.

import { colours, editor, explaining, SHADED, shading } from "../controls.js";
import { h } from "../dom.js";
import { mount } from "../mount.js";
import { legend, minimap, outcomes, search } from "../parts.js";
import { hidden, laid, reader } from "../reading.js";
import { LONG, scoredText } from "../text.js";

/** @typedef {import("../mount.js").Context} Context */

/**
 * The text with everything that explains and shades it.
 * @param {Context} context
 */
export function highlight(context) {
  const { model, on } = context;
  const read = reader(model);
  const text = scoredText(context);
  const lay = laid(model, [text]);
  const [scale, said] = [legend(), outcomes(context)];
  /** @type {import("../words.js").Mark[]} */
  let marks = [];
  const map = minimap(context, (share) => text.reveal(Math.round(share * (marks.length - 1))));
  const finder = search(context, text);

  const draw = () => {
    const found = read();
    if (!found) return;
    const before = marks;
    marks = lay(found);
    if (marks !== before) finder.again();
    const { scores, largest } = text.paint(found.rows[0], colours(model));
    scale.draw(
      largest,
      colours(model),
      scores.some((score) => score < 0),
      `not shown: ${hidden(found.tokens, found.rows[0])}`,
    );
    said.draw(found);
    map.node.hidden = marks.length < LONG;
    if (!map.node.hidden) map.draw(scores, largest, colours(model));
  };
  on(["_rev", ...SHADED], draw);

  const nodes = [
    editor(context),
    h("div", { class: "nbsal-controls" }, ...explaining(context)),
    said.node,
    h("div", { class: "nbsal-controls" }, ...shading(context), finder.node),
    map.node,
    text.node,
    text.said,
    scale.node,
  ];
  return { nodes, draw };
}

export default /* @__PURE__ */ mount("highlight", (context) => {
  const { nodes, draw } = highlight(context);
  context.root.append(...nodes);
  draw();
});
