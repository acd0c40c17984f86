// A text and what explains it; beside it its layers, its hiding curve and its heads, which unfold, with one selection.

import { headsAct } from "../charts/head-grid";
import { SHADING, scaleSetting } from "../controls/display";
import { chosenMethod } from "../controls/method-lists";
import { firstSide } from "../controls/side";
import { undo } from "../controls/undo";
import { bind, type Context } from "../page/context";
import { rowsOf } from "../page/decode";
import { link } from "../page/dom";
import { mount } from "../page/mount";
import type { RankedList, WorkbenchTraits } from "../page/traits";
import { fold, watchSight } from "../panels/fold";
import { ranking } from "../panels/ranking";
import { type Explanation, explanationReader } from "../text/explanation";
import type { Mark } from "../text/marks";
import { reading } from "../text/reading";
import { hiddenTokens, hidingPanel, strikeHidden } from "./games";
import { headsPanel, SWITCHES, UNDONE } from "./heads";
import { layersPanel } from "./layers";

const LONG = 120; // words of a text that is higher than the panels beside it

type WorkbenchContext = Context<WorkbenchTraits>;

/** The scores of every layer of the explained text, or null. */
function layerRows({ get }: WorkbenchContext, explanation: Explanation | null): Float64Array[] | null {
  const { scores } = get("_layers");
  if (!scores || !explanation) return null;
  const rows = rowsOf(scores, explanation.tokens.length);
  return rows.length === get("_choices").depth + 1 ? rows : null;
}

function workbenchFolds(context: WorkbenchContext, explanation: () => Explanation | null) {
  const { get, set, live, signal } = context;
  const side = firstSide(context);
  const layers = layersPanel(context);
  const allLayers = {
    node: layers.node,
    draw(next: Explanation | null) {
      const rows = layerRows(context, next);
      if (next && rows) layers.draw({ ...next, rows });
    },
  };
  const noLayers = () => {
    const { why } = get("_layers");
    const { layered: other } = get("_choices");
    if (!why || !live || !other || chosenMethod(side)?.layered) return why ? [why] : [];
    return [why, " \u00b7 ", link(signal, `Use ${other.label}`, () => set({ method: other.name }))];
  };
  /** Whose order the curve follows, if another layer is on display, as in a page without Python. */
  const order = () => {
    const layer = explanation()?.layer;
    const name = typeof layer === "number" && layer !== get("layer") && get("_layer_words").rows?.[layer];
    return name ? ` \u00b7 order of ${name}` : "";
  };
  const folds = [
    fold(context, {
      name: "games",
      title: "Hiding words, highest score first",
      panel: hidingPanel(context, order),
      computed: () => Boolean(get("_game").lines),
      reason: () => [get("_no_games")].filter(Boolean),
    }),
    fold(context, {
      name: "layers",
      title: "Layers by words",
      panel: allLayers,
      computed: () => layerRows(context, explanation()) !== null,
      reason: noLayers,
    }),
    fold(context, {
      name: "heads",
      title: "Heads",
      panel: headsPanel(context),
      computed: () => Boolean(get("_heads").kinds),
      reason: () => [],
    }),
  ];
  return { folds, layers };
}

export default mount<WorkbenchTraits>("workbench", (context) => {
  const { get, main, side, on } = context;
  const read = explanationReader(context);
  let explanation: Explanation | null = null;
  let marks: Mark[] = [];
  let ranked: RankedList | null = null;
  const { folds, layers } = workbenchFolds(context, () => explanation);

  const setCurrent = (current: boolean, names: string[] = ["text", "games", "layers", "heads"]) => {
    if (names.includes("text")) main.classList.toggle("nbsal-current", current);
    for (const panel of folds) if (names.includes(panel.name)) panel.setCurrent(current);
  };
  const markStale = () => {
    context.markStale();
    setCurrent(false);
  };
  const scale = scaleSetting(bind(context, "scale"), "Each layer its own", "One for all");
  const [text, words] = [reading({ ...context, markStale }, [scale]), ranking(context)];

  const strike = () => {
    const hidden = get("panels").includes("games") ? hiddenTokens(context) : new Set<number>();
    strikeHidden(text.text.node, marks, hidden);
  };
  const isComputed = () => get("layer") === explanation?.layer;
  text.say(() => (isComputed() ? undefined : get("_layers").statements?.[get("layer") ?? -1]) ?? get("_statements")[0]);
  const drawWords = () => {
    if (ranked && explanation) words.draw(ranked, explanation.unit, text.alone());
  };
  /** The scores on display: those of a layer that was just chosen are among those of all layers. */
  const drawText = () => {
    if (!explanation) return;
    const rows = isComputed() ? null : layerRows(context, explanation);
    const row = rows?.[get("layer") ?? -1] ?? explanation.rows[0];
    const top = get("scale") === "shared" && layerRows(context, explanation) ? layers.shown().top : undefined;
    const layer = get("layer") ?? -1;
    const legend = (rows && get("_layers").legends?.[layer]) ?? explanation.legends[0];
    marks = text.draw(explanation, row, top, legend).marks;
    context.retitle(isComputed() ? "" : (get("_layers").notes?.[layer] ?? ""));
    ranked = legend.ranked[get("level")];
    drawWords();
    const place = marks.length > LONG ? side : main; // beside a long text, below a short one
    if (words.node.parentElement !== place) place.append(words.node);
    strike();
  };
  const drawPanels = () => {
    for (const panel of folds) panel.draw(explanation);
  };
  const draw = () => {
    explanation = read();
    drawPanels();
    drawText();
    setCurrent(explanation?.parts.join("\n") === [get("text")].flat().join("\n"));
  };
  on(["_rev"], draw);
  on(["panels"], drawPanels);
  on([...SHADING, "scale"], drawText);
  on(["_statements"], drawWords);
  on(["text", "method", "target", "tau"], () => setCurrent(false));
  on([...SWITCHES], () => headsAct(context) && setCurrent(false, ["text", "games"]));
  on(["layer"], () => {
    drawText();
    setCurrent(layerRows(context, explanation) !== null, ["text"]);
    setCurrent(false, ["games"]);
    for (const panel of folds) if (panel.name === "games") panel.draw(explanation);
  });
  on(["at", "game", "panels"], strike);

  text.addTool(undo(context, [...UNDONE, "layer"]));
  main.append(...text.nodes, words.node);
  side.append(...folds.map(({ node }) => node));
  draw();
  watchSight(context, folds);
});
