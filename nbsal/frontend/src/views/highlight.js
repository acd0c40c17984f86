// @ts-check
// Highlight: a text with its tokens shaded by what they say for or against the decision.

import { editor, explaining, slider, toggle } from "../controls.js";
import { h } from "../dom.js";
import { mount } from "../mount.js";
import { legend, minimap, outcomes, search } from "../parts.js";
import { hidden, nameOf, reader } from "../reading.js";
import { scoredText } from "../text.js";
import { marksOf } from "../words.js";

const LONG = 400; // marks from which a map of the text helps

export default mount("highlight", (context) => {
  const { model, root, on } = context;
  const read = reader(model);
  const text = scoredText(context);
  const [scale, said] = [legend(), outcomes(context)];
  /** @type {import("../words.js").Mark[]} */
  let marks = [];
  let level = "";
  const map = minimap(context, (share) => text.reveal(Math.round(share * (marks.length - 1))));
  const finder = search(context, text);

  const draw = () => {
    const found = read();
    if (!found) return;
    if (found.fresh || level !== model.get("level")) {
      level = model.get("level");
      marks = marksOf(found.tokens, model.get("level"));
      text.lay(marks, found.parts, (k) => nameOf(found.tokens, found.parts, marks[k]), found.answer);
      finder.again();
    }
    const colours = { signed: model.get("signed"), gamma: model.get("gamma"), clip: model.get("clip") };
    const { scores, largest } = text.paint(found.rows[0], colours);
    scale.draw(
      largest,
      colours,
      scores.some((score) => score < 0),
      `not shown: ${hidden(found.tokens, found.rows[0])}`,
    );
    said.draw(found);
    map.node.hidden = marks.length < LONG;
    if (!map.node.hidden) map.draw(scores, largest, colours);
  };
  on(["_rev", "level", "signed", "gamma", "clip"], draw);

  root.append(
    editor(context),
    h("div", { class: "nbsal-controls" }, ...explaining(context)),
    said.node,
    h(
      "div",
      { class: "nbsal-controls" },
      toggle(context, "level", "words", ["token", "word"]),
      toggle(context, "signed", "signed"),
      slider(context, "gamma", "gamma", { min: 0.2, max: 3, step: 0.1 }),
      slider(context, "clip", "clip", { min: 0.05, max: 1, step: 0.05 }),
      finder.node,
    ),
    map.node,
    text.node,
    text.said,
    scale.node,
  );
  draw();
});
