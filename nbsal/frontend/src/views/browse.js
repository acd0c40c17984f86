// @ts-check
// Browse: a table of explained texts, to be sorted and filtered; one of them is opened below.

import { PLAIN } from "../colour.js";
import { choice, stopped, toggle } from "../controls.js";
import { h, settled, shown } from "../dom.js";
import { excerpt } from "../excerpt.js";
import { mount } from "../mount.js";
import { legend } from "../parts.js";
import { hidden, laid, reader } from "../reading.js";
import { scoredText } from "../text.js";

/** @typedef {import("../mount.js").Context} Context */
/** @typedef {{ number: number, prediction: string, confidence: number, label: string | null, wrong: boolean, top: string,
 *   pieces: import("../excerpt.js").Pieces }} Row */

const TYPING = 300; // ms without a key after which a filter acts
const COLUMNS = [
  ["number", "no."],
  ["text", "text"],
  ["prediction", "prediction"],
  ["confidence", "sure"],
  ["label", "label"],
  ["top", "top token"],
];

export default mount("browse", (context) => {
  const { model, root, on, set, live, signal } = context;
  const read = reader(model);
  const text = scoredText(context);
  const lay = laid(model, [text]);
  const scale = legend();
  const title = h("h4", { class: "nbsal-title" });
  const opened = h("div", { class: "nbsal-opened" }, title, text.node, text.said, scale.node);
  const heads = h("tr", {});
  const body = h("tbody", {});
  const clicked = (/** @type {MouseEvent} */ event) => {
    const row = /** @type {HTMLElement} */ (event.target).closest("tr");
    const number = Number(row?.dataset.number);
    if (live && row) set({ opened: model.get("opened") === number ? null : number });
  };
  body.addEventListener("click", clicked, { signal });
  const sorted = (/** @type {MouseEvent} */ event) => {
    const column = /** @type {HTMLElement} */ (event.target).closest("button")?.dataset.column;
    if (!column) return;
    set({ sort: column, descending: model.get("sort") === column && !model.get("descending") });
  };
  heads.addEventListener("click", sorted, { signal });
  const turn = (/** @type {number} */ by) => () => set({ page: Math.max(0, model.get("_table").page + by) });
  const back = h("button", { "aria-label": "page before", signal, click: turn(-1) }, "\u2039");
  const next = h("button", { "aria-label": "next page", signal, click: turn(1) }, "\u203a");
  const count = h("output", {});
  const wrong = toggle(context, "wrong", "wrong ones only");

  const columns = () => COLUMNS.filter(([name]) => name !== "label" || model.get("_table").judged);
  const head = (/** @type {string[]} */ [name, said]) => {
    const on = model.get("sort") === name;
    const way = model.get("descending") ? "descending" : "ascending";
    const mark = on ? (model.get("descending") ? " \u25be" : " \u25b4") : "";
    const button = h("button", { "data-column": name, disabled: !live }, said + mark);
    return h("th", { scope: "col", "aria-sort": on ? way : "none" }, button);
  };
  const row = (/** @type {Row} */ given) => {
    const { number, prediction, confidence, label, wrong: failed, top, pieces } = given;
    const is = model.get("opened") === number;
    const open = { "aria-label": `open text ${number}`, "aria-expanded": is, disabled: !live };
    const cells = /** @type {Record<string, Node | string>} */ ({
      number: h("button", open, String(number)),
      text: excerpt(pieces),
      prediction,
      confidence: `${(100 * confidence).toFixed(1)}%`,
      label: h("span", failed ? { class: "nbsal-wrong" } : {}, failed ? `\u2717 ${label}` : (label ?? "")),
      top,
    });
    const made = columns().map(([name]) => h("td", { class: `nbsal-cell-${name}` }, cells[name]));
    return h("tr", { "data-number": number, "aria-current": is ? "true" : null }, ...made);
  };
  const draw = () => {
    const { rows, page, pages, count: said, judged } = model.get("_table");
    const found = read();
    opened.hidden = !found;
    if (!rows) return;
    const focused = body.querySelector(":focus")?.closest("tr")?.dataset.number;
    const column = /** @type {HTMLElement | null} */ (heads.querySelector(":focus"))?.dataset.column;
    heads.replaceChildren(...columns().map(head));
    body.replaceChildren(...rows.map(row));
    if (focused) /** @type {HTMLElement | null} */ (body.querySelector(`[data-number="${focused}"] button`))?.focus();
    if (column) /** @type {HTMLElement | null} */ (heads.querySelector(`[data-column="${column}"]`))?.focus();
    count.textContent = `${said}, page ${page + 1} of ${pages}`;
    wrong.hidden = !judged;
    back.disabled = !live || page === 0;
    next.disabled = !live || page + 1 >= pages;
    classes.draw();
    if (!found) return;
    lay(found);
    const { largest } = text.paint(found.rows[0]);
    const negative = found.rows[0].some((score) => score < 0);
    scale.draw(largest, PLAIN, negative, `not shown: ${hidden(found.tokens, found.rows[0])}`);
    title.textContent = shown(`text ${model.get("opened")}: ${found.caption}`);
  };
  on(["_rev"], draw);
  const classes = label(context);
  root.append(
    h("div", { class: "nbsal-controls" }, classes.node, wrong, sought(context)),
    h(
      "div",
      { class: "nbsal-scroll" },
      h("table", { class: "nbsal-table", "aria-label": "texts" }, h("thead", {}, heads), body),
    ),
    h("div", { class: "nbsal-controls" }, back, count, next),
    opened,
  );
  draw();
});

/** The predicted class to keep; classes become known as texts get explained. @param {Context} context */
function label(context) {
  const { model } = context;
  const node = h("span", {});
  let known = "";
  return {
    node,
    draw() {
      const labels = model.get("_table").labels ?? [];
      if (JSON.stringify(labels) === known) return;
      known = JSON.stringify(labels);
      const options = [
        { value: null, name: "all" },
        ...labels.map((/** @type {string} */ name) => ({ value: name, name })),
      ];
      node.replaceChildren(choice(context, "label", "predicted", () => options));
    },
  };
}

/** A token or word that texts must have. @param {Context} context */
function sought({ model, on, set, live, signal }) {
  const send = settled(() => set({ token: input.value }), TYPING, signal);
  const properties = { type: "search", placeholder: "any", disabled: !live, "data-trait": "token" };
  const input = h("input", { ...properties, signal, input: send, keydown: stopped });
  const draw = () => {
    if (!input.matches(":focus")) input.value = model.get("token");
  };
  on(["token"], draw);
  draw();
  return h("label", {}, "with the word", input);
}
