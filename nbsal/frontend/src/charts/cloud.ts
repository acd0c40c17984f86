// The words of one class as a cloud or as a list: chosen by mouse or by keys.

import type { Context } from "../page/context";
import type { Cloud, CloudsTraits, Word } from "../page/corpus-traits";
import { closest, consume, h, panel, percent, sanitize, setActive, uniqueId } from "../page/dom";
import { clamp, nextItem } from "../page/keyboard";
import { s } from "../page/svg";
import { type Box, layOutCloud, typeSize } from "./cloud-layout";

const PAD = 3; // pixels around a word, which belong to it: its ring is drawn there
const BELOW = 5; // pixels below the line of letters that an underline needs
const FONTS = { changes: "600", idle: "400", ranked: "italic 400" };

interface Measured extends Box {
  size: number;
  /** From the top of the box to the line on which the letters stand. */
  baseline: number;
  /** Of the letters. */
  letters: number;
}

export interface CloudReadout {
  say(parts: (Node | string)[] | null): void;
}

/** A style that colours an element in the hue of a class. */
export const hueOf = (hue: number | null) => (hue === null ? "var(--nbsal-ink)" : `var(--nbsal-class-${hue})`);

/** @param onRoom hears how many words found no room */
export function cloudOf(context: Context<CloudsTraits>, cloud: Cloud, readout: CloudReadout, signal: AbortSignal) {
  const { get, set, live } = context;
  const { label, words, note, empty } = cloud;
  const uid = uniqueId();
  let options: (SVGElement | HTMLElement)[] = [];
  let active = 0;
  let drawnFor = ""; // form and width
  let homeless = 0; // words that found no room

  const isPicked = (k: number) => {
    const picked = get("picked");
    return picked?.[0] === label && picked[1] === words[k].word;
  };
  const drawPicked = () => {
    for (const [k, option] of options.entries()) option?.setAttribute("aria-selected", String(isPicked(k)));
  };
  const activate = (k: number) => {
    active = k;
    setActive(node, options[k]);
    readout.say(describe(words[k]));
  };
  const pick = (k: number) => {
    if (live) set({ picked: isPicked(k) ? null : [label, words[k].word] });
    activate(k);
  };
  const wordAt = (event: Event) => Number(closest(event, "[data-word]")?.dataset.word ?? -1);
  const onKeyDown = (event: KeyboardEvent) => {
    const drawn = options.flatMap((option, k) => (option ? [k] : []));
    const line = (from: number, direction: number) => clamp(from + direction, drawn.length);
    const next = nextItem(event, Math.max(0, drawn.indexOf(active)), drawn.length, { line });
    if (next !== null) activate(drawn[next]);
    else if ((event.key === "Enter" || event.key === " ") && options[active]) pick(active);
    else return;
    consume(event);
  };
  const node = h("div", {
    class: "nbsal-words",
    role: "listbox",
    tabindex: 0,
    "aria-label": `Words of ${label}`,
    signal,
    keydown: onKeyDown,
    focus: () => words.length && activate(options[active] ? active : 0),
    blur: () => readout.say(null),
    click: (event) => wordAt(event) >= 0 && pick(wordAt(event)),
    pointerover: (event) => readout.say(wordAt(event) < 0 ? null : describe(words[wordAt(event)])),
    pointerleave: () => readout.say(null),
  });
  const attributes = ({ state, shared }: Word, k: number) => ({
    id: `${uid}-${k}`,
    role: "option",
    "aria-selected": "false",
    "data-word": k,
    class: `nbsal-word nbsal-word-${state}${shared ? " nbsal-shared" : ""}`,
  });
  const drawCloud = (width: number) => {
    const measured = measure(words, width, getComputedStyle(node).fontFamily);
    const { places, height } = layOutCloud(measured, width);
    homeless = places.filter((place) => !place).length;
    options = [];
    const groups = places.flatMap((place, k) => {
      if (!place) return [];
      const { width: w, height: h, size, baseline, letters } = measured[k];
      const [x, y] = [place.x, place.y];
      const box = { x: x + 0.5, y: y + 0.5, width: w - 1, height: h - 1, rx: 4 };
      const type = { "font-size": size, "text-anchor": "middle", x: x + w / 2, y: y + baseline };
      const fit = { textLength: letters, lengthAdjust: "spacingAndGlyphs" };
      options[k] = s("g", attributes(words[k], k), s("rect", box), s("text", { ...type, ...fit }, words[k].word));
      return [options[k]];
    });
    node.replaceChildren(s("svg", { width, height: Math.ceil(height), role: "presentation" }, ...groups));
  };
  const drawList = () => {
    homeless = 0;
    options = words.map((word, k) => {
      const bar = h("i", { "--length": percent(word.share) });
      const numbers = word.cells.map((cell) => h("span", {}, cell));
      return h("div", attributes(word, k), h("b", { title: word.word }, word.word), bar, ...numbers);
    });
    node.replaceChildren(...options);
  };
  const section = panel("nbsal-cloud", words.length ? node : h("p", { class: "nbsal-quiet" }, empty));
  section.heading.textContent = sanitize(label);
  section.note.textContent = sanitize(note);
  section.node.style.setProperty("--hue", hueOf(cloud.hue));
  return {
    node: section.node,
    drawPicked,
    /** Draw the words in the room that there is; how many found none. */
    draw() {
      const width = Math.floor(node.clientWidth);
      const key = `${get("form")} ${get("form") === "cloud" ? width : ""}`;
      if (!words.length || (get("form") === "cloud" && !width) || key === drawnFor) return homeless;
      drawnFor = key;
      node.classList.toggle("nbsal-listed", get("form") === "list");
      if (get("form") === "list") drawList();
      else drawCloud(width);
      drawPicked();
      return homeless;
    },
    /** Measure again, for example with another font. */
    forget() {
      drawnFor = "";
    },
  };
}

const describe = ({ word, line }: Word): (Node | string)[] => [h("b", {}, word), line];

/** The boxes of words as the browser draws them. */
function measure(words: Word[], width: number, family: string): Measured[] {
  const canvas = document.createElement("canvas").getContext("2d");
  return words.map(({ word, share, state, shared }) => {
    const size = typeSize(share, width);
    if (canvas) canvas.font = `${FONTS[state]} ${size}px ${family}`;
    const metrics = canvas?.measureText(word);
    const letters = metrics?.width ?? size * word.length * 0.6;
    const above = metrics?.actualBoundingBoxAscent ?? size;
    const below = Math.max(metrics?.actualBoundingBoxDescent ?? size / 4, shared ? BELOW : 0);
    const height = above + below + 2 * PAD;
    return { width: letters + 2 * PAD, height, size, baseline: above + PAD, letters };
  });
}
