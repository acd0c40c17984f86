// @ts-check
// Parts: the pieces beside a scored text: its scale, the decision, a map of long texts, a search.

import { PLAIN, shade } from "./colour.js";
import { stopped } from "./controls.js";
import { h, taken } from "./dom.js";
import { bins, number } from "./layout.js";

/** @typedef {import("./mount.js").Context} Context */

const BINS = 120;

/** The scale of the colours, in numbers. */
export function legend() {
  const steps = h("span", { class: "nbsal-steps" });
  const rest = h("span", { class: "nbsal-rest" });
  return {
    node: h("div", { class: "nbsal-legend" }, steps, rest),
    /** @param {number} largest @param {import("./colour.js").Scale} scale @param {boolean} negative @param {string} note */
    draw(largest, scale, negative, note) {
      const shares = [...(negative && scale.signed ? [-1, -0.5] : []), 0, 0.5, 1];
      const made = shares.map((share) => {
        const value = share * largest * scale.clip;
        const box = h("span", {}, number(value));
        const { css, against } = shade(value, largest, scale);
        box.style.backgroundColor = css;
        box.classList.toggle("nbsal-against", against);
        return box;
      });
      steps.replaceChildren("score ", ...made);
      rest.textContent = shares.length > 3 ? `orange speaks for, blue against; ${note}` : note;
    },
  };
}

/**
 * What the model said: a bar for each outcome; a click explains that one.
 * @param {Context} context
 * @param {string} [prefix] that of a second explainer's traits
 */
export function outcomes({ model, set, live, signal }, prefix = "") {
  const trait = `${prefix}target`;
  /** @type {string[]} */
  let names = [];
  const clicked = (/** @type {MouseEvent} */ event) => {
    const outcome = /** @type {HTMLElement} */ (event.target).closest("button");
    if (!outcome) return;
    const name = names[Number(outcome.dataset.outcome)];
    set({ [trait]: model.get(trait) === name ? null : name });
  };
  const box = h("div", { class: "nbsal-outcomes", role: "group", "aria-label": "prediction", signal, click: clicked });
  return {
    node: box,
    /** @param {{ probabilities: [string, number][], prediction: string, target: string }} reading */
    draw({ probabilities, prediction, target }) {
      const { labels, task } = model.get(`_${prefix}choices`);
      names = probabilities.map(([name]) => name);
      const rows = probabilities.map(([name, share], k) => {
        const bar = h("span", { class: "nbsal-bar" });
        bar.style.width = `${100 * share}%`;
        const said = h("span", { class: "nbsal-name" }, name);
        const inner = [said, h("span", { class: "nbsal-share" }, `${(100 * share).toFixed(1)}%`), bar];
        const kind = name === prediction ? "nbsal-outcome nbsal-predicted" : "nbsal-outcome";
        if (!live || !(labels.includes(name) || task === "next-token")) return h("div", { class: kind }, ...inner);
        const title = `explain ${name}`;
        return h("button", { class: kind, title, "aria-pressed": name === target, "data-outcome": k }, ...inner);
      });
      const same = target === prediction || (!rows.length && target.startsWith(`${prediction} [`)); // a span with its place
      const explained = same ? "" : `explained: ${target}`;
      const said = [rows.length ? "" : `prediction: ${prediction}`, explained].filter(Boolean).join(", ");
      box.replaceChildren(...rows, ...(said ? [h("span", {}, said)] : []));
    },
  };
}

/**
 * Where in a long text the scores lie; a click or an arrow key goes there.
 * @param {Context} context
 * @param {(share: number) => void} go
 */
export function minimap({ signal }, go) {
  let share = 0;
  const move = (/** @type {number} */ to) => {
    share = Math.max(0, Math.min(1, to));
    box.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    go(share);
  };
  const clicked = (/** @type {MouseEvent} */ event) => {
    const { left, width } = box.getBoundingClientRect();
    move((event.clientX - left) / width);
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const way = /** @type {Record<string, number>} */ ({
      ArrowRight: 0.01,
      ArrowLeft: -0.01,
      PageDown: 0.1,
      PageUp: -0.1,
    });
    if (!(event.key in way)) return;
    move(share + way[event.key]);
    taken(event);
  };
  const range = { role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 };
  const label = { "aria-label": "place in the text", class: "nbsal-map" };
  const box = h("div", { ...range, ...label, signal, click: clicked, keydown: pressed });
  return {
    node: box,
    /** @param {number[]} scores @param {number} largest @param {import("./colour.js").Scale} scale */
    draw(scores, largest, scale) {
      const made = bins(scores, BINS).map((score) => {
        const bar = h("span");
        bar.style.height = `${Math.round(100 * Math.min(1, Math.abs(score) / (largest * scale.clip || 1)))}%`;
        bar.style.backgroundColor = shade(score, largest, PLAIN).css;
        return bar;
      });
      box.replaceChildren(...made);
    },
  };
}

/**
 * A search in a text; Enter goes from hit to hit.
 * @param {Context} context
 * @param {{ node: HTMLElement, reveal: (k: number) => void }} text
 */
export function search({ signal }, text) {
  /** @type {number[]} */
  let found = [];
  let at = -1;
  const count = h("output", {});
  const tell = () => {
    count.textContent = input.value ? `${found.length ? at + 1 : 0} of ${found.length}` : "";
  };
  const typed = () => {
    const wanted = input.value.toLocaleLowerCase();
    found = [];
    for (const [k, mark] of text.node.querySelectorAll(".nbsal-mark").entries()) {
      const hit = wanted && mark.textContent?.toLocaleLowerCase().includes(wanted);
      mark.classList.toggle("nbsal-found", !!hit);
      if (hit) found.push(k);
    }
    at = -1;
    tell();
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    stopped(event);
    if (event.key === "Escape") {
      input.value = "";
      typed();
    }
    if (event.key !== "Enter" || !found.length) return;
    at = (at + (event.shiftKey ? -1 : 1) + found.length) % found.length;
    text.reveal(found[at]);
    tell();
  };
  const input = h("input", { type: "search", placeholder: "find", signal, input: typed, keydown: pressed });
  input.setAttribute("aria-label", "find in the text");
  return { node: h("span", { class: "nbsal-search" }, input, count), again: typed };
}
