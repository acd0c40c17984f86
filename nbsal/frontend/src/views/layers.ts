// A heatmap of layers by tokens; selecting a row selects the layer, whose text is shown below.

import { shade } from "../colour";
import { bind, type Context } from "../context";
import { colourScale, SHADING, scaleChoice, shadingControls, textEditor } from "../controls";
import { toolbar } from "../dom";
import { explainerControls, firstSide } from "../explainer-controls";
import { type Explanation, explanationReader, layoutCache, specialTokens } from "../explanation";
import { formatScore } from "../format";
import { type Cells, heatmap } from "../heatmap";
import { legend } from "../legend";
import { largestOf, type Mark, marksOf, totals } from "../marks";
import { mount } from "../mount";
import { outcomes } from "../outcomes";
import { hoverSender, scoredText } from "../scored-text";
import type { LayersTraits } from "../traits";

/** The heatmap and the choice of its colour scale. */
export function layers(context: Context<LayersTraits>) {
  const { get, set } = context;
  let marks: Mark[] = [];
  const hover = hoverSender(context);
  const grid = heatmap(context, "Layers by tokens", {
    selectRow: (layer) => set({ layer }),
    selectColumn: (k) => set({ selection: marks[k].tokens }),
    hoverColumn: (k) => hover(k === null ? null : marks[k].tokens[0]),
  });
  return {
    grid,
    scale: scaleChoice(bind(context, "scale"), "One for each layer", "The same for all layers"),
    /** Draw the scores of every layer; return the selected layer, its scores, and the score that has full colour. */
    draw({ tokens, parts }: Explanation, layerScores: Float64Array[]) {
      marks = marksOf(tokens, get("level"));
      const layer = Math.min(get("layer") ?? layerScores.length - 1, layerScores.length - 1);
      const rows = layerScores.map((row) => totals(marks, row));
      const maxima = rows.map(largestOf);
      const overall = Math.max(...maxima);
      const top = (row: number) => (get("scale") === "own" ? maxima[row] : overall);
      const columns = marks.map((mark) => parts[mark.part].slice(mark.start, mark.end));
      const scale = colourScale(context);
      const cells: Cells = {
        rows: rows.map((_, row) => `Layer ${row}`),
        columns,
        shade: (row, k) => shade(rows[row][k], top(row), scale),
        describe: (row, k) =>
          `Layer ${row}, ${columns[k]}: ${formatScore(rows[row][k])} (layer maximum ${formatScore(maxima[row])})`,
      };
      const selection = new Set(get("selection"));
      const selected = marks.flatMap((mark, k) => (mark.tokens.some((i) => selection.has(i)) ? [k] : []));
      grid.draw(cells, layer, new Set(selected));
      return { layer, scores: rows[layer], top: top(layer) };
    },
  };
}

export default /* @__PURE__ */ mount<LayersTraits>("layers", (context) => {
  const { get, root, on } = context;
  const side = firstSide(context);
  const read = explanationReader(context);
  const text = scoredText(context);
  const layOut = layoutCache(() => get("level"), [text]);
  const [colours, decision, pane] = [legend(), outcomes(side), layers(context)];

  const draw = () => {
    const explanation = read();
    if (!explanation) return;
    layOut(explanation);
    const { layer, scores, top } = pane.draw(explanation, explanation.rows);
    const scale = colourScale(context);
    text.paint(explanation.rows[layer], scale, top);
    const negative = scores.some((score) => score < 0);
    const special = specialTokens(explanation.tokens, explanation.rows[layer]);
    colours.draw(top, scale, negative, `layer ${layer}`, special);
    decision.draw(explanation);
  };
  on(["_rev", "layer", "selection", "scale", ...SHADING], draw);

  root.append(
    textEditor(bind(context, "text")),
    toolbar(...explainerControls(context, side, false)),
    decision.node,
    toolbar(...shadingControls(context), pane.scale),
    pane.grid.node,
    pane.grid.readout,
    text.node,
    text.readout,
    colours.node,
  );
  draw();
});
