// @ts-check
// Clouds: a cloud of words for each class; a click on a word shows its texts.

import { choice, slider } from "../controls.js";
import { ended, h, shown, spoken, taken, unique } from "../dom.js";
import { excerpt } from "../excerpt.js";
import { step } from "../keys.js";
import { mount } from "../mount.js";
import { s } from "../svg.js";

/** @typedef {import("../mount.js").Context} Context */
/** @typedef {{ word: string, share: number, size: number, x: number, y: number, width: number, also?: string[] }} Word */
/** @typedef {{ label: string, words: Word[], size: [number, number] }} Cloud */

const UNITS = ["token", "word"].map((value) => ({ value, name: `${value}s` }));

export default mount("clouds", (context) => {
  const { model, root, on, live } = context;
  const plain = model.get("_plain");
  const box = h("div", { class: "nbsal-classes" });
  const title = h("h4", { class: "nbsal-title" });
  const list = h("ol", { class: "nbsal-texts" });
  /** @type {{ node: HTMLElement, mark: () => void }[]} */
  let made = [];
  let drawing = new AbortController();
  /** @type {any} */
  let drawn = null;
  ended(context.signal, () => drawing.abort());

  const draw = () => {
    const clouds = model.get("_clouds");
    if (clouds !== drawn) {
      drawn = clouds;
      drawing.abort();
      drawing = new AbortController();
      made = clouds.map((/** @type {Cloud} */ given) => cloud(context, given, drawing.signal));
      box.replaceChildren(...made.map(({ node }) => node));
    }
    const { picked, count = 0, texts = [] } = model.get("_texts_shown");
    title.hidden = list.hidden = !picked;
    if (picked) {
      const beyond = count > texts.length ? `, the first ${texts.length} of ${count}` : "";
      title.textContent = shown(
        plain ? "The texts of this cloud are not known." : `${picked[0]}: ${picked[1]}${beyond}`,
      );
    }
    list.replaceChildren(...texts.map(line));
  };
  on(["_rev"], draw);
  on(["picked"], () => {
    for (const { mark } of made) mark();
  });
  const count = slider(context, "k", "how many", { min: 5, max: 100, step: 5, python: true });
  const unit = choice(context, "unit", "unit", () => UNITS, plain && live);
  unit.hidden = plain;
  const note = "larger: more weight; underlined: among the first of several classes";
  root.append(
    h("div", { class: "nbsal-controls" }, count, unit),
    box,
    h("div", { class: "nbsal-legend" }, h("span", { class: "nbsal-rest" }, note)),
    title,
    list,
  );
  draw();
});

/** @param {{ number: number, caption: string, pieces: import("../excerpt.js").Pieces }} text */
const line = ({ number, caption, pieces }) =>
  h("li", { value: number, title: caption }, excerpt(pieces), h("span", { class: "nbsal-rest" }, ` ${caption}`));

/**
 * A class's words, in SVG.
 * @param {Context} context
 * @param {Cloud} given
 * @param {AbortSignal} signal
 */
function cloud({ model, set, live }, { label, words, size: [wide, high] }, signal) {
  const uid = unique();
  let active = 0;
  const said = spoken();
  const tell = (/** @type {Word} */ { word, share, also }) =>
    `${word}, ${(100 * share).toFixed(0)}% of the largest${also ? `, also in ${also.join(", ")}` : ""}`;
  const drawn = words.map(({ word, size, x, y, width, also }, k) =>
    s(
      "text",
      {
        id: `${uid}-${k}`,
        role: "option",
        class: also ? "nbsal-word nbsal-shared" : "nbsal-word",
        x,
        y,
        "font-size": size,
        textLength: width,
        lengthAdjust: "spacingAndGlyphs",
        "data-word": k,
      },
      word,
    ),
  );
  const svg = s("svg", { viewBox: `0 0 ${wide} ${high}`, role: "presentation" }, ...drawn);
  const mark = () => {
    const picked = model.get("picked");
    for (const [k, node] of drawn.entries())
      node.setAttribute("aria-selected", String(picked?.[0] === label && picked[1] === words[k].word));
  };
  const activate = (/** @type {number} */ k) => {
    drawn[active]?.classList.remove("nbsal-active");
    active = k;
    drawn[k].classList.add("nbsal-active");
    node.setAttribute("aria-activedescendant", `${uid}-${k}`);
    said.textContent = shown(tell(words[k]));
  };
  const pick = (/** @type {number} */ k) => {
    const picked = model.get("picked");
    const same = picked?.[0] === label && picked[1] === words[k].word;
    if (live) set({ picked: same ? null : [label, words[k].word] });
    activate(k);
  };
  const at = (/** @type {Event} */ event) => drawn.indexOf(/** @type {any} */ (event.target));
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const line = (/** @type {number} */ from, /** @type {number} */ way) =>
      Math.max(0, Math.min(words.length - 1, from + way));
    const next = step(event, active, words.length, { line });
    if (next !== null) activate(next);
    else if ((event.key === "Enter" || event.key === " ") && words[active]) pick(active);
    else return;
    taken(event);
  };
  const node = h(
    "div",
    {
      class: "nbsal-cloud",
      role: "listbox",
      tabindex: 0,
      "aria-label": `words of ${label}`,
      signal,
      keydown: pressed,
      focus: () => words.length && activate(active),
      click: (/** @type {Event} */ event) => at(event) >= 0 && pick(at(event)),
      pointerover: (/** @type {Event} */ event) => {
        if (at(event) >= 0) said.textContent = shown(tell(words[at(event)]));
      },
    },
    words.length ? svg : "Nothing speaks for this class.",
  );
  mark();
  return { node: h("div", { class: "nbsal-class" }, h("h4", { class: "nbsal-title" }, label), node, said), mark };
}
