// @ts-check
// Layers: layers by tokens, shaded; choosing a row chooses the layer, whose text is shown below.

import { shade } from "../colour.js";
import { colours, editor, explaining, fullAt, SHADED, shading } from "../controls.js";
import { h } from "../dom.js";
import { heat } from "../heat.js";
import { number } from "../layout.js";
import { mount } from "../mount.js";
import { legend, outcomes } from "../parts.js";
import { hidden, laid, reader } from "../reading.js";
import { hovering, scoredText } from "../text.js";
import { largestOf, marksOf, totals } from "../words.js";

/** @typedef {import("../mount.js").Context} Context */
/** @typedef {import("../reading.js").Reading} Reading */

/**
 * Layers by tokens, and on what scale they are shaded.
 * @param {Context} context
 */
export function layers(context) {
  const { model, set } = context;
  /** @type {import("../words.js").Mark[]} */
  let marks = [];
  const over = hovering(context);
  const grid = heat(context, "layers by tokens", {
    row: (layer) => set({ layer }),
    column: (k) => set({ selection: marks[k].tokens }),
    over: (k) => over(k === null ? null : marks[k].tokens[0]),
  });
  return {
    grid,
    scale: fullAt(context, "each layer's largest", "the largest of all"),
    /**
     * @param {Reading} found
     * @param {Float64Array[]} layered scores of each layer
     * @returns the layer that is chosen, its scores and what has full colour in it
     */
    draw(found, layered) {
      marks = marksOf(found.tokens, model.get("level"));
      const layer = Math.min(model.get("layer") ?? layered.length - 1, layered.length - 1);
      const rows = layered.map((row) => totals(marks, row));
      const tops = rows.map(largestOf);
      const most = Math.max(...tops);
      const top = (/** @type {number} */ row) => (model.get("scale") === "own" ? tops[row] : most);
      const selection = new Set(model.get("selection"));
      const columns = marks.map((mark) => found.parts[mark.part].slice(mark.start, mark.end));
      const sheet = {
        rows: rows.map((_, row) => `layer ${row}`),
        columns,
        shade: (/** @type {number} */ row, /** @type {number} */ k) => shade(rows[row][k], top(row), colours(model)),
        say: (/** @type {number} */ row, /** @type {number} */ k) =>
          `layer ${row}, ${columns[k]}: ${number(rows[row][k])}, the layer's largest ${number(tops[row])}`,
      };
      const chosen = marks.flatMap((mark, k) => (mark.tokens.some((i) => selection.has(i)) ? [k] : []));
      grid.draw(sheet, layer, new Set(chosen));
      return { layer, scores: rows[layer], top: top(layer) };
    },
  };
}

export default /* @__PURE__ */ mount("layers", (context) => {
  const { model, root, on } = context;
  const read = reader(model);
  const text = scoredText(context);
  const lay = laid(model, [text]);
  const [scale, said, pane] = [legend(), outcomes(context), layers(context)];

  const draw = () => {
    const found = read();
    if (!found) return;
    lay(found);
    const { layer, scores, top } = pane.draw(found, found.rows);
    text.paint(found.rows[layer], colours(model), top);
    const negative = scores.some((score) => score < 0);
    const unseen = hidden(found.tokens, found.rows[layer]);
    scale.draw(top, colours(model), negative, `layer ${layer}; not shown: ${unseen}`);
    said.draw(found);
  };
  on(["_rev", "layer", "selection", "scale", ...SHADED], draw);

  root.append(
    editor(context),
    h("div", { class: "nbsal-controls" }, ...explaining(context, { layer: false })),
    said.node,
    h("div", { class: "nbsal-controls" }, ...shading(context), pane.scale),
    pane.grid.node,
    pane.grid.said,
    text.node,
    text.said,
    scale.node,
  );
  draw();
});
