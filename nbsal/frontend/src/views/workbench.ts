// A text and below it its layers, its heads or its games, all with one selection.

import type { Context } from "../context";
import { SHADING } from "../controls";
import { rowsOf } from "../decode";
import { consume, h, toolbar, uniqueId } from "../dom";
import { type Explanation, explanationReader } from "../explanation";
import { mount } from "../mount";
import type { WorkbenchTraits } from "../traits";
import { games } from "./games";
import { heads } from "./heads";
import { highlight } from "./highlight";
import { layers } from "./layers";

type WorkbenchContext = Context<WorkbenchTraits>;
type PaneName = WorkbenchTraits["pane"];

interface Pane {
  node: HTMLElement;
  draw(explanation: Explanation | null): void;
}

const TABS: [PaneName, string][] = [
  ["layers", "Layers"],
  ["heads", "Heads"],
  ["games", "Games"],
];

export default mount<WorkbenchTraits>("workbench", (context) => {
  const { get, root, on } = context;
  const top = highlight(context);
  const read = explanationReader(context);
  const panes: Record<PaneName, Pane> = {
    layers: layersPane(context),
    heads: headsPane(context),
    games: games(context),
  };
  const tabs = tabList(context, panes);
  const draw = () => {
    tabs.draw();
    panes[get("pane")].draw(read());
  };
  on(["_rev", "pane"], draw);
  on(["layer", "selection", "scale", ...SHADING], () => {
    if (get("pane") === "layers") panes.layers.draw(read());
  });
  root.append(...top.nodes, tabs.node, ...tabs.panels);
  top.draw();
  draw();
});

/** The heatmap of layers; its text is the one above. */
function layersPane(context: WorkbenchContext): Pane {
  const pane = layers(context);
  const reason = h("p");
  const controls = toolbar(pane.scale);
  const grid = h("div", {}, controls, pane.grid.node, pane.grid.readout);
  return {
    node: h("div", {}, reason, grid),
    draw(explanation) {
      const { scores, scales, why = "" } = context.get("_layers");
      reason.textContent = why;
      grid.hidden = true;
      if (!explanation || !scores || !scales) return;
      if (scores.byteLength !== 2 * scales.length * explanation.tokens.length) return; // of another text
      grid.hidden = false;
      pane.draw(explanation, rowsOf(scores, scales));
    },
  };
}

/** The heads; only Mask-LRP takes them into account. */
function headsPane(context: WorkbenchContext): Pane {
  const { get, set, live, signal } = context;
  const pane = heads(context);
  const button = h("button", { disabled: !live, signal, click: () => set({ method: "mask-lrp" }) }, "Use mask-lrp");
  const note = h("p", {}, "Switching heads changes the scores only with the mask-lrp methods. ", button);
  return {
    node: h("div", {}, note, pane.node),
    draw(explanation) {
      note.hidden = get("method").startsWith("mask-lrp");
      if (get("_heads").kinds) pane.draw(explanation);
    },
  };
}

function tabList({ get, set, signal }: WorkbenchContext, panes: Record<PaneName, Pane>) {
  const uid = uniqueId();
  const names = TABS.map(([name]) => name);
  const panels = names.map((name) => {
    const labelled = { role: "tabpanel", id: `${uid}-${name}-panel`, "aria-labelledby": `${uid}-${name}` };
    return h("div", labelled, panes[name].node);
  });
  const buttons = TABS.map(([name, label]) => {
    const properties = { role: "tab", id: `${uid}-${name}`, "aria-controls": `${uid}-${name}-panel` };
    return h("button", { ...properties, signal, click: () => set({ pane: name }) }, label);
  });
  const onKeyDown = (event: KeyboardEvent) => {
    const direction = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!direction) return;
    const next = (names.indexOf(get("pane")) + direction + names.length) % names.length;
    set({ pane: names[next] });
    buttons[next].focus();
    consume(event);
  };
  const properties = { class: "nbsal-tabs", role: "tablist", "aria-label": "Panels below the text" };
  return {
    panels,
    node: h("div", { ...properties, signal, keydown: onKeyDown }, ...buttons),
    draw() {
      for (const [k, name] of names.entries()) {
        const selected = get("pane") === name;
        buttons[k].setAttribute("aria-selected", String(selected));
        buttons[k].tabIndex = selected ? 0 : -1;
        panels[k].hidden = !selected;
      }
    },
  };
}
