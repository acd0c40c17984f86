// A word cloud for each class; selecting a word lists its texts.

import { bind, type Context } from "../context";
import { choice, slider } from "../controls";
import { consume, h, liveRegion, onAbort, sanitize, toolbar, uniqueId } from "../dom";
import { excerpt } from "../excerpt";
import { formatPercent } from "../format";
import { clamp, nextItem } from "../keyboard";
import { mount } from "../mount";
import { s } from "../svg";
import type { Cloud, CloudsTraits, Word, WordText } from "../traits";

const UNITS = [
  { value: "token" as const, name: "Tokens" },
  { value: "word" as const, name: "Words" },
];
const NOTE = "Larger: more weight; underlined: among the top words of several classes";

export default mount<CloudsTraits>("clouds", (context) => {
  const { get, root, on, live } = context;
  const plain = get("_plain");
  const box = h("div", { class: "nbsal-classes" });
  const title = h("h4", { class: "nbsal-title" });
  const list = h("ol", { class: "nbsal-texts" });
  let drawn: ReturnType<typeof drawCloud>[] = [];
  let drawnFrom: Cloud[] | null = null;
  let controller = new AbortController(); // of the clouds that are drawn
  onAbort(context.signal, () => controller.abort());

  const draw = () => {
    const clouds = get("_clouds");
    if (clouds !== drawnFrom) {
      drawnFrom = clouds;
      controller.abort();
      controller = new AbortController();
      drawn = clouds.map((cloud) => drawCloud(context, cloud, controller.signal));
      box.replaceChildren(...drawn.map(({ node }) => node));
    }
    const { picked, count = 0, texts = [] } = get("_texts_shown");
    title.hidden = list.hidden = !picked;
    if (picked) {
      const limit = count > texts.length ? ` (first ${texts.length} of ${count} texts)` : "";
      title.textContent = sanitize(
        plain ? "This cloud was saved without its texts, so none can be listed." : `${picked[0]}: ${picked[1]}${limit}`,
      );
    }
    list.replaceChildren(...texts.map(textItem));
  };
  on(["_rev"], draw);
  on(["picked"], () => {
    for (const { drawSelection } of drawn) drawSelection();
  });
  const count = slider(bind(context, "k"), "Words per cloud", { min: 5, max: 100, step: 5 });
  const unit = choice(bind(context, "unit"), "Unit", () => UNITS, plain && live);
  unit.hidden = plain;
  root.append(
    toolbar(count, unit),
    box,
    h("div", { class: "nbsal-legend" }, h("span", { class: "nbsal-note" }, NOTE)),
    title,
    list,
  );
  draw();
});

const textItem = ({ number, caption, pieces }: WordText) =>
  h("li", { value: number, title: caption }, excerpt(pieces), h("span", { class: "nbsal-note" }, ` ${caption}`));

/** The words of a class, placed as Python laid them out. */
function drawCloud({ get, set, live }: Context<CloudsTraits>, { label, words, size }: Cloud, signal: AbortSignal) {
  const uid = uniqueId();
  const readout = liveRegion();
  let active = 0;
  const texts = words.map(({ word, size, x, y, width, also }, k) => {
    const name = also ? "nbsal-word nbsal-shared" : "nbsal-word";
    const place = { x, y, "font-size": size, textLength: width, lengthAdjust: "spacingAndGlyphs" };
    return s("text", { id: `${uid}-${k}`, role: "option", class: name, ...place }, word);
  });
  const describe = ({ word, share, also }: Word) => {
    const others = also ? `, also in ${also.join(", ")}` : "";
    readout.textContent = sanitize(`${word}, ${formatPercent(share, 0)} of the largest weight${others}`);
  };
  const isPicked = ({ word }: Word) => {
    const picked = get("picked");
    return picked?.[0] === label && picked[1] === word;
  };
  const drawSelection = () => {
    for (const [k, text] of texts.entries()) text.setAttribute("aria-selected", String(isPicked(words[k])));
  };
  const activate = (k: number) => {
    texts[active]?.classList.remove("nbsal-active");
    active = k;
    texts[k].classList.add("nbsal-active");
    node.setAttribute("aria-activedescendant", `${uid}-${k}`);
    describe(words[k]);
  };
  const pick = (k: number) => {
    if (live) set({ picked: isPicked(words[k]) ? null : [label, words[k].word] });
    activate(k);
  };
  const wordAt = ({ target }: Event) => texts.indexOf(target as SVGTextElement);
  const onKeyDown = (event: KeyboardEvent) => {
    const line = (from: number, direction: number) => clamp(from + direction, words.length);
    const next = nextItem(event, active, words.length, { line });
    if (next !== null) activate(next);
    else if ((event.key === "Enter" || event.key === " ") && words[active]) pick(active);
    else return;
    consume(event);
  };
  const svg = s("svg", { viewBox: `0 0 ${size.join(" ")}`, role: "presentation" }, ...texts);
  const node = h(
    "div",
    {
      class: "nbsal-cloud",
      role: "listbox",
      tabindex: 0,
      "aria-label": `Words of ${label}`,
      signal,
      keydown: onKeyDown,
      focus: () => words.length && activate(active),
      click: (event) => wordAt(event) >= 0 && pick(wordAt(event)),
      pointerover: (event) => wordAt(event) >= 0 && describe(words[wordAt(event)]),
    },
    words.length ? svg : "No word supports this class.",
  );
  drawSelection();
  const heading = h("h4", { class: "nbsal-title" }, label);
  return { node: h("div", { class: "nbsal-class" }, heading, node, readout), drawSelection };
}
