// The attention heads of a model: what each follows, what it attends to, and what the decision is without some of them.

import { attentionPanel } from "../charts/attention";
import { beforeAfter } from "../charts/before-after";
import { headGrid, headSwitches, headsAct } from "../charts/head-grid";
import { SHADING } from "../controls/display";
import { headControls, methodHint } from "../controls/head-controls";
import { saveMenu } from "../controls/save";
import { firstSide } from "../controls/side";
import { undo } from "../controls/undo";
import type { Context } from "../page/context";
import { h, panel } from "../page/dom";
import type { Change } from "../page/head-traits";
import { mount } from "../page/mount";
import type { HeadsTraits } from "../page/traits";
import { type Explanation, explanationReader } from "../text/explanation";
import { reading } from "../text/reading";

type HeadsContext = Context<HeadsTraits>;

const NOT_STUDIED = "This model has no head study. Run one in Python:";
const HOW_TO_STUDY = "study = nbsal.heads.study(subject, parses)";
const KEYS: [string, string][] = [
  ["syntactic", "follows syntax"],
  ["positional", "attends to a fixed position"],
  ["none", "no known pattern"],
  ["off", "off"],
];
/** What Undo takes back. */
export const UNDONE = ["text", "method", "target", "kind", "synt", "pos", "toggled"] as const;
export const SWITCHES = ["kind", "synt", "pos", "toggled"] as const;

/** The grid of heads with its controls, and the attention of the chosen one. */
function headsParts(context: HeadsContext) {
  const { get, on } = context;
  const switches = headSwitches(context);
  const grid = headGrid(context, switches);
  const controls = headControls(context, switches.count);
  const attention = attentionPanel(context, switches);
  const hint = methodHint(context);
  const study = h("p", { class: "nbsal-hint" }, NOT_STUDIED, " ", h("code", {}, HOW_TO_STUDY));
  const keys = KEYS.map(([kind, words]) => h("span", {}, h("i", { class: `nbsal-switch nbsal-${kind}` }), words));
  const legend = h("div", { class: "nbsal-keys nbsal-small" }, ...keys);
  const content = [hint, study, grid.node, grid.readout, legend, controls.node];
  const section = panel("nbsal-heads-panel", ...content);
  const draw = () => {
    const { finding: words = "Heads", count: on = "", named, studied } = get("_heads");
    section.heading.textContent = words;
    section.note.textContent = on;
    hint.hidden = headsAct(context);
    study.hidden = named !== false || studied === true;
    grid.draw();
    controls.draw();
    attention.drawTools();
  };
  on([...SWITCHES, "head", "method"], draw);
  return {
    grid: section.node,
    attention: attention.node,
    draw(explanation: Explanation | null) {
      draw();
      attention.draw(explanation);
    },
  };
}

/** The heads as one panel of another view. */
export function headsPanel(context: HeadsContext) {
  const parts = headsParts(context);
  const outcomes = beforeAfter(firstSide(context));
  parts.grid.querySelector("header")?.after(outcomes.node);
  parts.grid.append(parts.attention);
  return {
    node: parts.grid,
    draw(explanation: Explanation | null) {
      parts.draw(explanation);
      const { changes = [] } = context.get("_effect");
      if (explanation) outcomes.draw(changes, explanation.target);
      outcomes.node.hidden = !changes.length;
    },
  };
}

/** A mask or study without a text: the grid alone. */
function gridOnly(context: HeadsContext) {
  const parts = headsParts(context);
  const button = undo(context, [...SWITCHES]);
  parts.grid.querySelector(".nbsal-head-tools")?.append(button, h("span", { class: "nbsal-grow" }), saveMenu(context));
  const draw = () => parts.draw(null);
  context.on(["_rev"], draw);
  context.main.append(parts.grid);
  draw();
}

function headsOfText(context: HeadsContext) {
  const { get, main, side, on } = context;
  const read = explanationReader(context);
  const parts = headsParts(context);
  const outcomes = beforeAfter(firstSide(context));
  /** The map depends on neither the switches nor the class: it stays in full ink while they change. */
  const keep = (holds: boolean) => parts.attention.classList.toggle("nbsal-holds", holds);
  const markStale = () => {
    context.markStale();
    keep(false);
  };
  const text = reading({ ...context, markStale });
  const button = undo(context, [...UNDONE]);
  const draw = () => {
    const explanation = read();
    parts.draw(explanation);
    if (!explanation) return;
    text.draw(explanation, explanation.rows[0]);
    const { target, probabilities, percentages } = explanation;
    const unchanged = probabilities.map(([name, share], i): Change => [name, share, share, "", percentages[i]]);
    const { changes = [] } = get("_effect");
    outcomes.draw(changes.length ? changes : unchanged, target);
    outcomes.node.hidden = !probabilities.length;
  };
  on(["_rev", ...SHADING], draw);
  on(["text"], () => keep(false));
  on(["method", "target", ...SWITCHES], () => keep(true));
  parts.grid.querySelector(".nbsal-head-tools")?.append(button);
  const [tools, , share, ...others] = [...text.nodes].reverse();
  main.append(...others.reverse(), outcomes.node, share, parts.grid, tools); // the decision before the share of words
  side.append(parts.attention);
  draw();
}

export default /* @__PURE__ */ mount<HeadsTraits>("heads", (context) => {
  if (context.get("method")) headsOfText(context);
  else gridOnly(context);
});
