// @ts-check
// Workbench: the text, and below it its layers, its heads or its games, all of one selection.

import { SHADED } from "../controls.js";
import { rowsOf } from "../decode.js";
import { h, taken, unique } from "../dom.js";
import { mount } from "../mount.js";
import { reader } from "../reading.js";
import { games } from "./games.js";
import { heads } from "./heads.js";
import { highlight } from "./highlight.js";
import { layers } from "./layers.js";

/** @typedef {import("../mount.js").Context} Context */
/** @typedef {import("../reading.js").Reading} Reading */
/** @typedef {{ node: HTMLElement, draw: (found: Reading | null) => void }} Pane */

export default mount("workbench", (context) => {
  const { model, root, on } = context;
  const top = highlight(context);
  const read = reader(model);
  const panes = { layers: layered(context), heads: headed(context), games: games(context) };
  const box = tabs(context, panes);
  const draw = () => {
    box.draw();
    panes[/** @type {keyof typeof panes} */ (model.get("pane"))].draw(read());
  };
  on(["_rev", "pane"], draw);
  on(["layer", "selection", "scale", ...SHADED], () => {
    if (model.get("pane") === "layers") panes.layers.draw(read());
  });
  root.append(...top.nodes, box.node, ...box.panels);
  top.draw();
  draw();
});

/**
 * The layers' grid; its text is the one above.
 * @param {Context} context
 * @returns {Pane}
 */
function layered(context) {
  const pane = layers(context);
  const none = h("p", {});
  const grid = h("div", {}, h("div", { class: "nbsal-controls" }, pane.scale), pane.grid.node, pane.grid.said);
  return {
    node: h("div", {}, none, grid),
    draw(found) {
      const { scores, scales, why = "" } = context.model.get("_layers");
      const ready = !!found && !!scales && scores.byteLength === 2 * scales.length * found.tokens.length;
      none.textContent = why;
      grid.hidden = !ready;
      if (ready) pane.draw(found, rowsOf(scores, scales));
    },
  };
}

/**
 * The heads; only some methods read them.
 * @param {Context} context
 * @returns {Pane}
 */
function headed(context) {
  const { model, set, live, signal } = context;
  const pane = heads(context);
  const choose = () => set({ method: "mask-lrp" });
  const button = h("button", { disabled: !live, signal, click: choose }, "explain by mask-lrp");
  const note = h("p", {}, "Switches act on what is explained by mask-lrp: ", button);
  return {
    node: h("div", {}, note, pane.node),
    draw(found) {
      note.hidden = model.get("method").startsWith("mask-lrp");
      if (model.get("_heads").kinds) pane.draw(found);
    },
  };
}

/**
 * @param {Context} context
 * @param {Record<string, Pane>} panes
 */
function tabs({ model, set, signal }, panes) {
  const uid = unique();
  const names = Object.keys(panes);
  const panels = names.map((name) => {
    const known = { role: "tabpanel", id: `${uid}-${name}-pane`, "aria-labelledby": `${uid}-${name}` };
    return h("div", known, panes[name].node);
  });
  const buttons = names.map((name) => {
    const known = { role: "tab", id: `${uid}-${name}`, "aria-controls": `${uid}-${name}-pane` };
    return h("button", { ...known, signal, click: () => set({ pane: name }) }, name);
  });
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    const next = (names.indexOf(model.get("pane")) + way + names.length) % names.length;
    set({ pane: names[next] });
    buttons[next].focus();
    taken(event);
  };
  return {
    panels,
    node: h(
      "div",
      { class: "nbsal-tabs", role: "tablist", "aria-label": "below the text", signal, keydown: pressed },
      ...buttons,
    ),
    draw() {
      for (const [k, name] of names.entries()) {
        const on = model.get("pane") === name;
        buttons[k].setAttribute("aria-selected", String(on));
        buttons[k].tabIndex = on ? 0 : -1;
        panels[k].hidden = !on;
      }
    },
  };
}
