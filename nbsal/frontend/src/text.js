// @ts-check
// Text: scored tokens as shaded text that is read, searched and selected by mouse and keys.

import { PLAIN, shade, UNSHADED } from "./colour.js";
import { h, shown, spoken, taken, throttled, unique } from "./dom.js";
import { step } from "./keys.js";
import { blocks, number, range } from "./layout.js";
import { gapsOf, largestOf, ranks, totals } from "./words.js";

/** @typedef {import("./mount.js").Context} Context */
/** @typedef {import("./words.js").Mark} Mark */
/** @typedef {import("./colour.js").Scale} Scale */

export const LONG = 400; // marks from which a text scrolls by itself, and a map of it helps
const HOVER = 60; // ms between hovers told to Python

/**
 * Tells Python, not too often, which token is pointed at.
 * @param {Context} context
 */
export const hovering = ({ set, signal }) =>
  throttled((/** @type {number | null} */ token) => set({ hover: token }), HOVER, signal);

/**
 * The rest of a text after its last token: more than space there is, if the text was cut, what the model did not read.
 * @param {string} rest
 * @param {boolean} cut
 */
const unread = (rest, cut) =>
  cut && rest.trim() ? h("span", { class: "nbsal-unread", title: "not read" }, rest) : rest;

/**
 * @param {Context} context
 * @param {string} [label]
 * @param {HTMLElement} [said] where the token under the pointer or the keys is spoken of
 */
export function scoredText(context, label = "tokens", said = spoken()) {
  const { model, on, set, signal } = context;
  const uid = unique();
  /** @type {Mark[]} */ let marks = [];
  /** @type {HTMLElement[]} */ let spans = [];
  /** @type {string[]} */ let names = [];
  /** @type {number[]} */ let scores = [];
  /** @type {{ css: string, against: boolean }[]} */ let shades = []; // what the spans have now
  /** @type {number[] | null} */ let places = null;
  /** @type {Map<number, number>} */ let markOf = new Map(); // token -> mark
  /** @type {Set<number>} */ let chosen = new Set();
  let active = 0;
  let anchor = 0;

  const placesNow = () => (places ??= ranks(scores));
  const at = (/** @type {Event} */ event) => {
    const span = /** @type {HTMLElement} */ (event.target).closest?.(".nbsal-mark");
    return span instanceof HTMLElement ? Number(span.dataset.mark) : -1;
  };
  const tell = (/** @type {number} */ k) => {
    if (!marks[k]) return "";
    const rank = placesNow()[k];
    return `${k + 1} of ${marks.length}: ${names[k]}, ${number(scores[k])}, rank ${rank}`;
  };

  const select = (/** @type {number[]} */ picked) =>
    set({ selection: picked.flatMap((k) => marks[k].tokens).sort((a, b) => a - b) });
  const activate = (/** @type {number} */ k) => {
    spans[active]?.classList.remove("nbsal-active");
    active = k;
    spans[k]?.classList.add("nbsal-active");
    box.setAttribute("aria-activedescendant", `${uid}-${k}`);
    said.textContent = tell(k);
  };
  /** @param {number} k @param {{ shiftKey: boolean, ctrlKey: boolean, metaKey: boolean }} event */
  const pick = (k, { shiftKey, ctrlKey, metaKey }) => {
    if (shiftKey) select(range(anchor, k));
    else if (ctrlKey || metaKey) select([...(chosen.has(k) ? [...chosen].filter((c) => c !== k) : [...chosen, k])]);
    else select(chosen.size === 1 && chosen.has(k) ? [] : [k]);
    if (!shiftKey) anchor = k;
    activate(k);
  };

  const hover = hovering(context);
  const clicked = (/** @type {MouseEvent} */ event) => {
    const k = at(event);
    if (event.shiftKey) getSelection()?.removeAllRanges(); // the browser selects text too
    if (k >= 0 && (getSelection()?.isCollapsed ?? true)) pick(k, event);
  };
  const dragged = (/** @type {MouseEvent} */ event) => {
    const native = getSelection();
    if (!native || native.isCollapsed || event.shiftKey) return;
    const inside = spans.flatMap((span, k) => (native.containsNode(span, true) ? [k] : []));
    if (inside.length) select(inside);
  };
  const pointed = (/** @type {PointerEvent} */ event) => {
    const k = at(event);
    if (k >= 0) {
      said.textContent = tell(k);
      hover(marks[k].tokens[0]);
    }
  };
  const line = (/** @type {number} */ from, /** @type {number} */ way) => {
    const here = spans[from].getBoundingClientRect();
    const middle = (here.left + here.right) / 2;
    let best = from;
    let nearest = Number.POSITIVE_INFINITY;
    for (let k = from + way, row = 0; spans[k]; k += way) {
      const there = spans[k].getBoundingClientRect();
      if (Math.abs(there.top - here.top) < 3) continue;
      if (row && Math.abs(there.top - row) > 3) break;
      row = there.top;
      const far = Math.abs((there.left + there.right) / 2 - middle);
      if (far < nearest) [nearest, best] = [far, k];
    }
    return best;
  };
  const ranked = () => {
    /** @type {number[]} */
    const order = [];
    for (const [k, place] of placesNow().entries()) order[place - 1] = k;
    return order;
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const next = step(event, active, marks.length, { ranked, line });
    if (next !== null) {
      if (event.shiftKey) select(range(anchor, next));
      else anchor = next;
      activate(next);
      spans[next].scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" || event.key === " ") {
      if (marks[active]) pick(active, event);
    } else if (event.key === "Escape") select([]);
    else return;
    taken(event);
  };
  const box = h("div", {
    class: "nbsal-text",
    role: "listbox",
    tabindex: 0,
    "aria-multiselectable": "true",
    "aria-label": label,
    signal,
    click: clicked,
    pointerup: dragged,
    pointerover: pointed,
    pointerleave: () => hover(null),
    keydown: pressed,
    focus: () => activate(active),
  });

  const showSelection = () => {
    const now = new Set(/** @type {number[]} */ (model.get("selection")).map((i) => markOf.get(i) ?? -1));
    for (const k of chosen) if (!now.has(k)) spans[k]?.setAttribute("aria-selected", "false");
    for (const k of now) spans[k]?.setAttribute("aria-selected", "true");
    now.delete(-1);
    chosen = now;
  };
  const showHover = () => {
    box.querySelector(".nbsal-hover")?.classList.remove("nbsal-hover");
    const k = markOf.get(model.get("hover"));
    if (k !== undefined) spans[k].classList.add("nbsal-hover");
  };
  on(["selection"], showSelection);
  on(["hover"], showHover);

  return {
    node: box,
    said,
    /**
     * Lay out the text anew.
     * @param {Mark[]} given
     * @param {string[]} parts
     * @param {(k: number) => string} nameOf
     * @param {[number, number] | null} answer tokens of a span that answers, marked
     */
    lay(given, parts, nameOf, answer = null) {
      marks = given;
      places = null;
      shades = [];
      markOf = new Map(marks.flatMap((mark, k) => mark.tokens.map((i) => [i, k])));
      const { gaps, tails } = gapsOf(marks, parts);
      const textOf = (/** @type {number} */ k) => shown(parts[marks[k].part].slice(marks[k].start, marks[k].end));
      names = marks.map((_, k) => nameOf(k));
      spans = marks.map((mark, k) => {
        const span = document.createElement("span");
        const answers =
          answer && mark.tokens[0] <= answer[1] && /** @type {number} */ (mark.tokens.at(-1)) >= answer[0];
        span.className = answers ? "nbsal-mark nbsal-answer" : "nbsal-mark";
        span.id = `${uid}-${k}`;
        span.dataset.mark = String(k);
        span.setAttribute("role", "option");
        span.setAttribute("aria-selected", "false");
        span.textContent = textOf(k);
        return span;
      });
      const joins = (/** @type {number} */ k) => marks[k].part === marks[k - 1]?.part;
      const starts = blocks(marks, gaps, textOf);
      const made = starts.map((first, b) => {
        const block = h("div", { class: "nbsal-block", dir: "auto", role: "presentation" });
        const last = starts[b + 1] ?? marks.length;
        const { part } = marks[first];
        for (let k = first; k < last; k++) block.append(k === first && joins(k) ? "" : shown(gaps[k]), spans[k]);
        block.append(marks[last]?.part === part ? shown(gaps[last]) : unread(tails[part], model.get("_tokens").cut)); // no line begins with the space
        return block;
      });
      box.classList.toggle("nbsal-long", marks.length >= LONG);
      box.classList.toggle("nbsal-cut", made.length > parts.length);
      box.replaceChildren(...made);
      said.textContent = "";
      chosen = new Set();
      active = Math.min(active, Math.max(0, marks.length - 1));
      showSelection();
    },
    /**
     * Colour it by one score a token, beside the largest score shown unless another scale is given.
     * @param {ArrayLike<number>} values
     * @param {Scale} [scale]
     * @param {number} [top]
     */
    paint(values, scale = PLAIN, top) {
      scores = totals(marks, values);
      places = null;
      const largest = top ?? largestOf(scores);
      shades = spans.map((span, k) => {
        const before = shades[k] ?? UNSHADED;
        const now = shade(scores[k], largest, scale);
        if (now.css !== before.css) span.style.backgroundColor = now.css;
        if (now.against !== before.against) span.classList.toggle("nbsal-against", now.against);
        return now;
      });
      return { scores, largest };
    },
    /** Bring a mark into sight. @param {number} k */
    reveal(k) {
      activate(k);
      spans[k]?.scrollIntoView({ block: "center" });
    },
  };
}
