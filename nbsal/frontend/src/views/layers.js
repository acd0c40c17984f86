// @ts-check
// Layers: layers by tokens, shaded; choosing a row chooses the layer, whose text is shown below.

import { shade } from "../colour.js";
import { choice, colours, editor, explaining, shading } from "../controls.js";
import { h, throttled } from "../dom.js";
import { heat } from "../heat.js";
import { number } from "../layout.js";
import { mount } from "../mount.js";
import { legend, outcomes } from "../parts.js";
import { hidden, laid, reader } from "../reading.js";
import { HOVER, scoredText } from "../text.js";
import { largestOf, totals } from "../words.js";

const SCALES = [
  { value: "own", name: "each layer's largest" },
  { value: "shared", name: "the largest of all" },
];

export default mount("layers", (context) => {
  const { model, root, on, set, signal } = context;
  const read = reader(model);
  const text = scoredText(context);
  const lay = laid(model, [text]);
  const [scale, said] = [legend(), outcomes(context)];
  /** @type {import("../words.js").Mark[]} */
  let marks = [];
  const over = throttled((/** @type {number | null} */ token) => set({ hover: token }), HOVER, signal);
  const grid = heat(context, "layers by tokens", {
    row: (layer) => set({ layer }),
    column: (k) => set({ selection: marks[k].tokens }),
    over: (k) => over(k === null ? null : marks[k].tokens[0]),
  });

  const draw = () => {
    const found = read();
    if (!found) return;
    marks = lay(found);
    const layer = Math.min(model.get("layer") ?? found.rows.length - 1, found.rows.length - 1);
    const rows = found.rows.map((row) => totals(marks, row));
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
    grid.draw(
      sheet,
      layer,
      new Set(marks.flatMap((mark, k) => (mark.tokens.some((i) => selection.has(i)) ? [k] : []))),
    );
    text.paint(found.rows[layer], colours(model), top(layer));
    const negative = rows[layer].some((score) => score < 0);
    scale.draw(
      top(layer),
      colours(model),
      negative,
      `layer ${layer}; not shown: ${hidden(found.tokens, found.rows[layer])}`,
    );
    said.draw(found);
  };
  on(["_rev", "layer", "selection", "scale", "level", "signed", "gamma", "clip"], draw);

  root.append(
    editor(context),
    h("div", { class: "nbsal-controls" }, ...explaining(context, { layer: false })),
    said.node,
    h(
      "div",
      { class: "nbsal-controls" },
      ...shading(context),
      choice(context, "scale", "full colour at", () => SCALES, true),
    ),
    grid.node,
    grid.said,
    text.node,
    text.said,
    scale.node,
  );
  draw();
});
