// @ts-check
// Heads: blocks by heads, switched on and off by a click, and where one of them looks on the text.

import { FOR, PLAIN, STRONGEST } from "../colour.js";
import { choice, editor, explaining, slider } from "../controls.js";
import { h, settled, shown, spoken, taken, unique } from "../dom.js";
import { step } from "../keys.js";
import { mount } from "../mount.js";
import { legend, outcomes } from "../parts.js";
import { hidden, laid, reader } from "../reading.js";
import { scoredText } from "../text.js";

/** @typedef {import("../mount.js").Context} Context */
/** @typedef {import("../reading.js").Reading} Reading */

const DWELL = 200; // ms on a head before its attention is asked for
const KINDS = ["both", "syntactic", "positional", "none"];
const LETTERS = /** @type {Record<string, string>} */ ({ syntactic: "S", positional: "P", both: "B", unnamed: "U" });

/**
 * The heads with their controls, and where the chosen one looks.
 * @param {Context} context
 */
export function heads(context) {
  const { model, on, set, live, signal } = context;
  const grid = switches(context);
  const looks = attention(context);
  const again = h("button", { signal, click: () => set({ toggled: [] }) }, "Reset");
  const thresholds = ["synt", "pos"].map((trait) =>
    slider(context, trait, trait === "synt" ? "syntax beyond" : "position beyond", {
      min: 0,
      max: 1,
      step: 0.05,
      python: true,
    }),
  );
  const draw = () => {
    for (const control of thresholds) control.hidden = !model.get("_heads").studied;
    again.disabled = !live || !model.get("toggled").length;
    grid.draw();
  };
  on(["toggled"], draw);
  on(["head"], grid.draw);
  const kinds = choice(context, "kind", "heads on", () => KINDS.map((value) => ({ value, name: value })));
  const letters = "S follows syntax, P position, B both, U no named reason; shaded: on";
  const node = h(
    "div",
    {},
    h("div", { class: "nbsal-controls" }, kinds, ...thresholds, again),
    grid.node,
    grid.said,
    h("div", { class: "nbsal-legend" }, h("span", { class: "nbsal-rest" }, letters)),
    looks.node,
  );
  return {
    node,
    /** @param {Reading | null} found */
    draw(found) {
      draw();
      looks.draw(found);
    },
  };
}

/**
 * The grid of switches.
 * @param {Context} context
 */
function switches({ model, set, live, signal }) {
  const uid = unique();
  let wide = 1;
  let active = 0;
  let shape = "";
  /** @type {HTMLElement[]} */ let cells = [];
  const said = spoken();
  const isOn = (/** @type {number} */ i) => {
    const [block, head] = [Math.floor(i / wide), i % wide];
    const turned = model.get("toggled").filter((/** @type {number[]} */ t) => t[0] === block && t[1] === head).length;
    return (model.get("_heads").on[block][head] + turned) % 2 === 1;
  };
  const tell = (/** @type {number} */ i) => {
    const [block, head] = [Math.floor(i / wide), i % wide];
    const { about } = model.get("_heads");
    return `head ${block}.${head}, ${isOn(i) ? "on" : "off"}: ${about[block][head]}`;
  };
  const look = settled(
    (/** @type {number} */ i) => live && model.get("method") && set({ head: [Math.floor(i / wide), i % wide] }),
    DWELL,
    signal,
  );
  const activate = (/** @type {number} */ i) => {
    cells[active]?.classList.remove("nbsal-active");
    active = i;
    cells[i].classList.add("nbsal-active");
    node.setAttribute("aria-activedescendant", cells[i].id);
    said.textContent = shown(tell(i));
    look(i);
  };
  const turn = (/** @type {number} */ i) => {
    if (!live) return;
    const [block, head] = [Math.floor(i / wide), i % wide];
    const rest = model.get("toggled").filter((/** @type {number[]} */ t) => t[0] !== block || t[1] !== head);
    set({ toggled: rest.length < model.get("toggled").length ? rest : [...rest, [block, head]] });
    activate(i);
  };
  const at = (/** @type {Event} */ event) => cells.indexOf(/** @type {HTMLElement} */ (event.target));
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const line = (/** @type {number} */ from, /** @type {number} */ way) =>
      cells[from + way * wide] ? from + way * wide : from;
    const next = step(event, active, cells.length, { line });
    if (next !== null) activate(next);
    else if (event.key === " " || event.key === "Enter") turn(active);
    else return;
    taken(event);
  };
  const pointed = (/** @type {Event} */ event) => {
    const i = at(event);
    if (i < 0) return;
    said.textContent = shown(tell(i));
    look(i);
  };
  const node = h("div", {
    class: "nbsal-grid",
    role: "grid",
    tabindex: 0,
    "aria-label": "heads",
    "aria-multiselectable": "true",
    signal,
    keydown: pressed,
    pointerover: pointed,
    pointerleave: () => look(active),
    focus: () => cells.length && activate(active),
    click: (/** @type {Event} */ event) => at(event) >= 0 && turn(at(event)),
  });
  const lay = (/** @type {string[][]} */ kinds) => {
    wide = kinds[0].length;
    active = Math.min(active, kinds.length * wide - 1);
    node.style.setProperty("--nbsal-heads", String(wide));
    const rows = kinds.map((row, block) => {
      const made = row.map((_, head) => h("span", { role: "gridcell", id: `${uid}-${block}-${head}` }));
      const name = h("span", { role: "rowheader", class: "nbsal-block-name" }, `block ${block}`);
      return h("div", { role: "row", class: "nbsal-heads-row" }, name, ...made);
    });
    cells = rows.flatMap((row) => /** @type {HTMLElement[]} */ ([...row.children].slice(1)));
    node.replaceChildren(...rows);
  };
  return {
    node,
    said,
    draw() {
      const { kinds } = model.get("_heads");
      if (!kinds) return;
      if (shape !== `${kinds.length}.${kinds[0].length}`) {
        shape = `${kinds.length}.${kinds[0].length}`;
        lay(kinds);
      }
      const chosen = model.get("head")?.join(".");
      for (const [i, cell] of cells.entries()) {
        const kind = kinds[Math.floor(i / wide)][i % wide];
        const name = `${Math.floor(i / wide)}.${i % wide}`;
        cell.textContent = LETTERS[kind] ?? "\u00b7";
        cell.className = `nbsal-switch nbsal-${kind}${name === chosen ? " nbsal-looked" : ""}`;
        cell.setAttribute("aria-selected", String(isOn(i)));
        cell.setAttribute("aria-label", `head ${name}, ${kind === "none" ? "no known pattern" : kind}`);
      }
      if (node.matches(":focus")) cells[active]?.classList.add("nbsal-active");
    },
  };
}

/**
 * Where the chosen head looks: from the selected tokens, or from all on average, and the whole map.
 * @param {Context} context
 */
function attention(context) {
  const { model, on, set, signal } = context;
  const text = scoredText(context, "tokens looked at");
  const scale = legend();
  const title = h("h4", { class: "nbsal-title" });
  const clicked = (/** @type {MouseEvent} */ event) => {
    const { top, height } = map.getBoundingClientRect();
    const row = Math.floor(((event.clientY - top) / height) * map.height);
    if (found && !found.tokens[row].special) set({ selection: [row] });
  };
  const map = h("canvas", { class: "nbsal-attention", role: "img", signal, click: clicked });
  const side = h("div", { class: "nbsal-looks-text" }, text.node, text.said, scale.node);
  const node = h("div", {}, title, h("div", { class: "nbsal-looks" }, map, side));
  /** @type {Reading | null} */
  let found = null;
  const lay = laid(model, [text]);
  const draw = () => {
    const { head, size, top, map: bytes } = model.get("_attention");
    node.hidden = !head || !found || size !== found.tokens.length;
    if (!found || node.hidden) return;
    const { tokens } = found;
    lay(found);
    const picked = model.get("selection").filter((/** @type {number} */ i) => i < size);
    const content = tokens.flatMap((token, i) => (token.special ? [] : [i]));
    const from = picked.length ? picked : content;
    const seen = Float64Array.from({ length: size }, (_, key) => {
      const sum = from.reduce(
        (/** @type {number} */ total, /** @type {number} */ i) => total + bytes.getUint8(i * size + key),
        0,
      );
      return ((sum / from.length) * top) / 255;
    });
    const { largest } = text.paint(seen);
    scale.draw(
      largest,
      PLAIN,
      false,
      `attention, in the map from a row to a column; not shown: ${hidden(tokens, seen)}`,
    );
    const origin = picked.length
      ? picked.map((/** @type {number} */ i) => tokens[i].text).join(" ")
      : "all tokens, on average";
    title.textContent = shown(`head ${head.join(".")} on this text, from ${origin}`);
    map.setAttribute("aria-label", `attention of head ${head.join(".")}: a row for each token that looks`);
    paint(map, bytes, size);
  };
  on(["selection", "level"], draw);
  return {
    node,
    /** @param {Reading | null} given */
    draw(given) {
      found = given;
      draw();
    },
  };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {DataView} bytes
 * @param {number} size
 */
function paint(canvas, bytes, size) {
  canvas.width = canvas.height = size;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const image = pen.createImageData(size, size);
  for (let i = 0; i < size * size; i++) image.data.set([...FOR, bytes.getUint8(i) * STRONGEST], 4 * i);
  pen.putImageData(image, 0, 0);
}

export default /* @__PURE__ */ mount("heads", (context) => {
  const { model, root, on } = context;
  const read = reader(model);
  const text = scoredText(context);
  const lay = laid(model, [text]);
  const [scale, said, pane] = [legend(), outcomes(context), heads(context)];
  const top = model.get("method")
    ? [editor(context), controls(context), said.node, text.node, text.said, scale.node]
    : [];
  const draw = () => {
    const found = read();
    pane.draw(found);
    if (!found) return;
    lay(found);
    const { largest } = text.paint(found.rows[0]);
    scale.draw(largest, PLAIN, false, `not shown: ${hidden(found.tokens, found.rows[0])}`);
    said.draw(found);
  };
  on(["_rev"], draw);
  root.append(...top, pane.node);
  draw();
});

/** @param {Context} context */
const controls = (context) => h("div", { class: "nbsal-controls" }, ...explaining(context, { layer: false }));
