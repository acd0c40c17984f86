// A word cloud for each class; a chosen word is ringed, and its texts follow.

import { type CloudReadout, cloudOf, hueOf } from "../charts/cloud";
import { segments } from "../controls/display";
import { popover } from "../controls/popover";
import { saveMenu } from "../controls/save";
import { bind, type Context } from "../page/context";
import { h, onAbort } from "../page/dom";
import { plural } from "../page/format";
import { mount } from "../page/mount";
import type { Cloud, CloudSummary, CloudsTraits, WordText } from "../page/traits";
import { excerpt } from "../text/excerpt";

type CloudsContext = Context<CloudsTraits>;

const STEP = 5; // words
const MOST = 200;

export default /* @__PURE__ */ mount<CloudsTraits>("clouds", (context: CloudsContext) => {
  const { get, main, on, live } = context;
  const sentence = h("p", { class: "nbsal-headline", "aria-live": "polite" });
  const readout = readoutLine();
  const overlap = h("span", { class: "nbsal-quiet" });
  const [clouds, texts, tools] = [cloudRow(context, readout), textList(), toolRow(context)];
  let acted = true; // the reader has changed something since the clouds were drawn

  const draw = () => {
    const { sentence: pieces, overlap: finding, hint, explained, total } = get("_summary");
    if (!pieces || finding === undefined || hint === undefined) return;
    sentence.replaceChildren(...pieces.map(phrase));
    readout.hint(hint);
    overlap.textContent = finding;
    // While texts are explained, words that are being read stay; those of all texts follow.
    if (acted || explained === total || !clouds.drawn()) clouds.draw(get("_clouds"));
    acted = false;
    tools.draw(clouds.homeless());
    texts.draw(get("_texts_shown"));
  };
  on(["k", "unit"], () => {
    acted = true;
  });
  on(["_rev"], draw);
  on(["form"], () => {
    clouds.redraw();
    tools.draw(clouds.homeless());
  });
  on(["picked"], () => {
    clouds.drawPicked();
    texts.outdate(get("picked"));
  });
  clouds.onResize(() => tools.draw(clouds.homeless()));
  const line = h("div", { class: "nbsal-read" }, readout.node, overlap);
  main.append(sentence, clouds.node, line, tools.node, texts.node);
  if (!live) main.classList.add("nbsal-offline");
  draw();
});

/** A piece of the sentence; words are underlined in the hue of their class. */
function phrase([text, hue, isWord]: CloudSummary["sentence"][number]) {
  const span = h(isWord ? "em" : "span", { class: isWord ? "nbsal-word-for" : "" }, text);
  if (isWord) span.style.borderColor = hueOf(hue);
  return span;
}

/** The line under the clouds: the word under the pointer or the keys, else how to read the clouds. */
function readoutLine() {
  const node = h("div", { class: "nbsal-readout", "aria-live": "polite" });
  let hint = "";
  let word: (Node | string)[] | null = null;
  const draw = () => node.replaceChildren(...(word ?? [hint]));
  return {
    node,
    hint(text: string) {
      hint = text;
      draw();
    },
    say(parts: (Node | string)[] | null) {
      word = parts;
      draw();
    },
  };
}

/** The clouds of all classes, which are laid out again when their width or their font changes. */
function cloudRow(context: CloudsContext, readout: CloudReadout) {
  const { signal } = context;
  const node = h("div", { class: "nbsal-cloud-row" });
  let drawn: ReturnType<typeof cloudOf>[] = [];
  let drawnFrom: Cloud[] | null = null;
  let controller = new AbortController(); // of the clouds that are drawn
  let onResize = () => {};
  let homeless = 0;
  const redraw = () => {
    homeless = drawn.reduce((sum, cloud) => sum + cloud.draw(), 0);
  };
  onAbort(signal, () => controller.abort());
  const observer = new ResizeObserver(() => {
    redraw();
    onResize();
  });
  observer.observe(node);
  onAbort(signal, () => observer.disconnect());
  document.fonts?.ready.then(() => {
    if (signal.aborted) return;
    for (const cloud of drawn) cloud.forget();
    redraw();
  });
  return {
    node,
    redraw,
    drawn: () => drawnFrom !== null,
    homeless: () => homeless,
    onResize(call: () => void) {
      onResize = call;
    },
    drawPicked() {
      for (const cloud of drawn) cloud.drawPicked();
    },
    draw(clouds: Cloud[]) {
      if (JSON.stringify(clouds) === JSON.stringify(drawnFrom)) return;
      drawnFrom = clouds;
      controller.abort();
      controller = new AbortController();
      drawn = clouds.map((cloud) => cloudOf(context, cloud, readout, controller.signal));
      node.replaceChildren(...drawn.map((cloud) => cloud.node));
      readout.say(null); // the word that it described is gone
      node.classList.toggle("nbsal-single", drawn.length === 1);
      redraw();
    },
  };
}

/** The texts in which the picked word scores for its class. */
function textList() {
  const [heading, note, list] = [h("h3"), h("span"), h("ol", { class: "nbsal-quotes" })];
  const node = h("section", { class: "nbsal-panel", hidden: true }, h("header", {}, heading, note), list);
  let picked: string | undefined;
  return {
    node,
    draw(listed: CloudsTraits["_texts_shown"]) {
      picked = JSON.stringify(listed.picked ?? null);
      node.hidden = !listed.picked;
      node.classList.remove("nbsal-outdated");
      heading.textContent = listed.heading ?? "";
      note.textContent = listed.note ?? "";
      list.replaceChildren(...(listed.texts ?? []).map(quote));
    },
    /** Dim the texts of another word until those of the picked one come. */
    outdate: (now: string[] | null) => node.classList.toggle("nbsal-outdated", JSON.stringify(now) !== picked),
  };
}

const quote = ({ number, caption, pieces }: WordText) =>
  h("li", {}, h("span", { class: "nbsal-quiet" }, String(number)), excerpt(pieces), h("small", {}, caption));

function toolRow(context: CloudsContext) {
  const { get, live, signal } = context;
  const form = segments(bind(context, "form"), "Form", [
    ["cloud", "Cloud"],
    ["list", "List"],
  ]);
  const room = h("span", { class: "nbsal-quiet" });
  const unit = segments(bind(context, "unit"), "Unit", [
    ["word", "Words"],
    ["token", "Tokens"],
  ]);
  unit.classList.add("nbsal-needs-python");
  for (const button of unit.querySelectorAll("button")) button.disabled = get("_plain");
  const sheet = h("div", {}, h("div", { class: "nbsal-settings" }, h("span", {}, "Unit"), unit));
  const display = popover(signal, ["Display"], sheet, "nbsal-plain", "nbsal-at-end").node;
  display.hidden = !live; // other units are other words
  const grow = h("span", { class: "nbsal-grow" });
  return {
    node: h("div", { class: "nbsal-tools" }, wordCount(context), form, room, grow, display, saveMenu(context)),
    /** @param homeless the number of words that found no room */
    draw(homeless: number) {
      room.hidden = !homeless || get("form") !== "cloud";
      room.textContent = `${plural(homeless, "word")} more in the list`;
    },
  };
}

/** How many words each cloud has. */
function wordCount({ get, set, mirror, live, signal }: CloudsContext) {
  const step = (by: number) => () => {
    const next = (by > 0 ? Math.floor(get("k") / STEP) + 1 : Math.ceil(get("k") / STEP) - 1) * STEP;
    set({ k: Math.max(STEP, Math.min(MOST, next)) });
  };
  const fewer = h("button", { "aria-label": "Fewer words", signal, click: step(-1) }, "\u2212");
  const more = h("button", { "aria-label": "More words", signal, click: step(1) }, "+");
  const count = h("output", { "data-trait": "k" });
  mirror(["k"], () => {
    count.textContent = plural(get("k"), "word");
    fewer.disabled = get("k") <= STEP;
    more.disabled = get("k") >= MOST;
  });
  return h(
    "span",
    { class: "nbsal-stepper nbsal-needs-python", role: "group", "aria-label": "Words per cloud", hidden: !live },
    fewer,
    count,
    more,
  );
}
