// A text at one layer, and beside it every layer by words; walking the layers paints the text at once.

import { heatmap } from "../charts/heatmap";
import { colourScale, SHADING, scaleSetting } from "../controls/display";
import { EXPLAINED, undo } from "../controls/undo";
import { bind, type Context } from "../page/context";
import { h, panel } from "../page/dom";
import { mount } from "../page/mount";
import type { LayersTraits, LayerWords } from "../page/traits";
import { shade } from "../text/colour";
import { type Explanation, explanationReader } from "../text/explanation";
import { phraseNodes } from "../text/headline";
import { largestOf, type Mark, marksOf, namedMark, ranked, totals } from "../text/marks";
import { reading } from "../text/reading";
import { nameNodes, scoreWords } from "../text/readout";
import { hoverSender } from "../text/scored-text";

const HINT = "Point at a cell to see its score. The keys \u2191 and \u2193 change the layer.";

/** Every layer by words. Its `draw` takes an explanation with a row of scores for each layer. */
export function layersPanel(context: Context<LayersTraits>) {
  const { get, set, on } = context;
  let explanation: Explanation | null = null;
  let words: LayerWords;
  let marks: Mark[] = [];
  let columns: string[] = [];
  let maxima: number[] = [];
  let describe = (_row: number, _column: number): (Node | string)[] => [];
  let pointed: { word: string; row: number; column: number } | null = null;
  const hover = hoverSender(context);
  const readout = h("div", { class: "nbsal-readout nbsal-small nbsal-line", "aria-live": "polite" }, HINT);
  const grid = heatmap(context, "Layers by words", {
    selectRow: (layer) => set({ layer }),
    selectColumn: (k) => set({ selection: k === null || isSelected(k) ? [] : marks[k].tokens }),
    point: (cell) => {
      hover(cell && marks[cell.column].tokens[0]);
      pointed = cell && cell.row >= 0 ? { ...cell, word: columns[cell.column] } : null;
      drawReadout();
    },
  });
  const { node, heading, note } = panel("nbsal-evidence nbsal-layers-panel", grid.node, readout);

  const isSelected = (k: number) => JSON.stringify(get("selection")) === JSON.stringify(marks[k].tokens);
  /** The layer on display. */
  const chosen = () => Math.min(get("layer") ?? maxima.length - 1, maxima.length - 1);
  /** The score that has full colour in a layer. */
  const top = (layer: number) => (get("scale") === "own" ? maxima[layer] : Math.max(...maxima));

  const drawState = () => {
    if (!explanation) return;
    const at = (position: number) => marks.findIndex(({ tokens }) => tokens.includes(position));
    const pointed = get("hover");
    grid.mark(new Set([chosen()]), new Set(get("selection").map(at)), pointed === null ? null : at(pointed));
  };
  /** Describe the cell under the pointer or the keys, if there still is one. */
  const drawReadout = () => {
    const there = pointed && columns[pointed.column] === pointed.word && pointed.row < maxima.length;
    readout.replaceChildren(...(pointed && there ? describe(pointed.row, pointed.column) : [HINT]));
  };
  const draw = () => {
    if (!explanation) return;
    const { tokens, parts } = explanation;
    const noun = get("level");
    marks = marksOf(tokens, noun);
    const rows = explanation.rows.map((row) => totals(marks, row));
    maxima = rows.map(largestOf);
    columns = marks.map(({ part, start, end }) => parts[part].slice(start, end));
    const scale = colourScale(context);
    const { of, remarks, cells } = words.levels[noun];
    const cell = (row: number, k: number) => `${words.rows[row]} \u00b7 ${remarks[row] || cells[row][k] + of}`;
    describe = (row, k) => [h("b", {}, ...nameNodes(namedMark(marks[k], parts))), scoreWords(` · ${cell(row, k)}`)];
    grid.node.setAttribute("aria-label", `Layers by ${noun}s`);
    grid.draw({
      rows: words.rows,
      columns,
      groups: marks.flatMap(({ part }, k) => (k > 0 && part !== marks[k - 1].part ? [k] : [])),
      shade: (row, k) => shade(rows[row][k], top(row), scale),
      remark: (row) => remarks[row],
      describe: ({ row, column }) => `${columns[column]} · ${cell(row, column)}`,
      ranked: (row) => ranked(rows[row].map(Math.abs)),
    });
    heading.replaceChildren(...phraseNodes(words.finding));
    note.textContent = words.scales[get("scale")];
    drawReadout();
    drawState();
  };
  on(["scale", ...SHADING], draw);
  on(["layer"], () => {
    if (pointed) pointed.row = chosen();
    drawReadout();
  });
  on(["layer", "selection", "hover"], drawState);

  return {
    node,
    /** The layer on display and the score with full colour in it. */
    shown: () => ({ layer: chosen(), top: top(chosen()) }),
    draw(next: Explanation | null) {
      if (next && next !== explanation) [explanation, words] = [next, get("_layer_words")];
      draw();
    },
  };
}

export default /* @__PURE__ */ mount<LayersTraits>("layers", (context) => {
  const { get, main, side, on } = context;
  const read = explanationReader(context);
  const scale = scaleSetting(bind(context, "scale"), "Each layer its own", "One for all");
  const [text, panel] = [reading(context, [scale]), layersPanel(context)];
  let explanation: Explanation | null = null;
  text.say(() => (explanation ? get("_statements")[panel.shown().layer] : undefined));
  const paint = () => {
    if (!explanation) return;
    const { layer, top } = panel.shown();
    text.draw(explanation, explanation.rows[layer], top);
  };
  const draw = () => {
    explanation = read();
    if (!explanation) return;
    panel.draw(explanation);
    paint();
  };
  on(["_rev"], draw);
  on(["layer", "scale", ...SHADING], paint);
  text.addTool(undo(context, EXPLAINED));
  main.append(...text.nodes);
  side.append(panel.node);
  draw();
});
