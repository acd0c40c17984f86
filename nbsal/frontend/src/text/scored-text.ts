// A text with its scores as shades, which is read, searched, selected and edited by mouse and keys.

import type { Context } from "../page/context";
import { closest, consume, h, sanitize, setActive, throttle, uniqueId } from "../page/dom";
import { nextItem } from "../page/keyboard";
import type { ExplanationTraits } from "../page/traits";
import { LINEAR, type Shade, shade, UNSHADED } from "./colour";
import { marksAfterEdit } from "./edited";
import { blocks, range } from "./layout";
import { gapsOf, largestOf, type Mark, namedMark, ranked, ranks, totals } from "./marks";
import { type Readout, readoutLine } from "./readout";

export const LONG = 400; // marks from which a text scrolls by itself and has a minimap
const HOVER_INTERVAL = 60; // ms between two hovers sent to Python

type TextContext = Context<ExplanationTraits>;
type Modifiers = Pick<MouseEvent, "shiftKey" | "ctrlKey" | "metaKey">;

/** A text as it was explained. */
interface Layout {
  marks: Mark[];
  parts: string[];
  /** First and last token of an answer span. */
  answer: [number, number] | null;
}

type HoverSender = (token: number | null) => void;

/** One for each view: with two, the late "nothing" of the list that was left would end the hover in the text. */
const hoverSenders = new WeakMap<AbortSignal, HoverSender>();

/** Send Python the token under the pointer. */
export function hoverSender({ set, signal }: TextContext): HoverSender {
  const sender = hoverSenders.get(signal) ?? throttle((hover) => set({ hover }), HOVER_INTERVAL, signal);
  hoverSenders.set(signal, sender);
  return sender;
}

export type ScoredText = ReturnType<typeof scoredText>;

/** @param readout where the word under the pointer or the keys is described */
export function scoredText(
  context: TextContext,
  label = "The text, word by word",
  readout: Readout = readoutLine(context.get("_readout")),
) {
  const { get, on, set, signal } = context;
  const uid = uniqueId();
  let explained: Layout = { marks: [], parts: [], answer: null };
  let marks: Mark[] = []; // on display: those of the explained text that an edit left whole
  let parts: string[] = [];
  let spans: HTMLElement[] = [];
  let scores: number[] = [];
  let shades: Shade[] = []; // what the spans have now
  let order: number[] = []; // rank of each mark
  let painted: [ArrayLike<number>, typeof LINEAR, number | undefined] = [[], LINEAR, undefined];
  let markOf = new Map<number, number>(); // token -> mark
  let selected = new Set<number>();
  let active = 0;
  let anchor = 0;
  let pointed = -1;

  const markAt = (event: Event) => Number(closest(event, ".nbsal-mark")?.dataset.mark ?? -1);
  const textOf = (k: number) => parts[marks[k].part].slice(marks[k].start, marks[k].end);
  const weighed = (k: number) => ({
    ...namedMark(marks[k], parts),
    score: scores[k],
    part: marks[k].part,
    rank: order[k],
    token: marks[k].tokens[0],
  });
  /** Describe what is under the pointer, else what is selected. */
  const describe = () => {
    const ks = marks[pointed] ? [pointed] : [...selected].sort((a, b) => a - b);
    const pieces = ks.length === 1 ? marks[ks[0]].tokens : [];
    readout.draw(ks.map(weighed), { largest: largestOf(scores), count: marks.length, pieces });
  };

  const select = (ks: number[]) => set({ selection: ks.flatMap((k) => marks[k].tokens).sort((a, b) => a - b) });
  const activate = (k: number) => {
    active = pointed = k;
    setActive(node, spans[k]);
    describe();
  };
  const toggle = (k: number, { shiftKey, ctrlKey, metaKey }: Modifiers) => {
    if (shiftKey) select(range(anchor, k));
    else if (ctrlKey || metaKey)
      select(selected.has(k) ? [...selected].filter((other) => other !== k) : [...selected, k]);
    else select(selected.size === 1 && selected.has(k) ? [] : [k]);
    if (!shiftKey) anchor = k;
    activate(k);
  };

  const hover = hoverSender(context);
  const onClick = (event: MouseEvent) => {
    const k = markAt(event);
    if (event.shiftKey) getSelection()?.removeAllRanges(); // the browser selects text too
    if (k >= 0 && (getSelection()?.isCollapsed ?? true)) toggle(k, event);
  };
  const onPointerUp = (event: MouseEvent) => {
    const dragged = getSelection();
    if (!dragged || dragged.isCollapsed || event.shiftKey) return;
    const inside = spans.flatMap((span, k) => (dragged.containsNode(span, true) ? [k] : []));
    if (!inside.length) return;
    pointed = -1; // the readout tells the sum, not the last word
    select(inside);
  };
  const onPointerOver = (event: PointerEvent) => {
    const k = markAt(event);
    if (k < 0) return;
    pointed = k;
    describe();
    hover(marks[k].tokens[0]);
  };
  const onPointerLeave = () => {
    pointed = -1;
    describe();
    hover(null);
  };
  /** The mark nearest to the one `from`, in the line above or below. */
  const markInNextLine = (from: number, direction: 1 | -1) => {
    const here = spans[from].getBoundingClientRect();
    const middle = (here.left + here.right) / 2;
    let best = from;
    let least = Number.POSITIVE_INFINITY;
    for (let k = from + direction, top = 0; spans[k]; k += direction) {
      const there = spans[k].getBoundingClientRect();
      if (Math.abs(there.top - here.top) < 3) continue;
      if (top && Math.abs(there.top - top) > 3) break;
      top = there.top;
      const distance = Math.abs((there.left + there.right) / 2 - middle);
      if (distance < least) [least, best] = [distance, k];
    }
    return best;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const k = nextItem(event, active, marks.length, {
      ranked: () => ranked(scores.map(Math.abs)),
      line: markInNextLine,
    });
    if (k !== null) {
      if (event.shiftKey) select(range(anchor, k));
      else anchor = k;
      activate(k);
      spans[k].scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" || event.key === " ") {
      if (marks[active]) toggle(active, event);
    } else if (event.key === "Escape") select([]);
    else return;
    consume(event);
  };
  const node = h("div", {
    class: "nbsal-text",
    role: "listbox",
    tabindex: 0,
    "aria-multiselectable": "true",
    "aria-label": label,
    signal,
    click: onClick,
    pointerup: onPointerUp,
    pointerover: onPointerOver,
    pointerleave: onPointerLeave,
    keydown: onKeyDown,
    focus: () => activate(active),
    blur: onPointerLeave,
  });

  const drawSelection = () => {
    const next = new Set(get("selection").map((i) => markOf.get(i) ?? -1));
    for (const k of selected) if (!next.has(k)) spans[k]?.setAttribute("aria-selected", "false");
    for (const k of next) spans[k]?.setAttribute("aria-selected", "true");
    next.delete(-1);
    selected = next;
    describe();
  };
  const drawHover = () => {
    node.querySelector(".nbsal-hover")?.classList.remove("nbsal-hover");
    const k = markOf.get(get("hover") ?? -1);
    if (k !== undefined) spans[k].classList.add("nbsal-hover");
  };
  on(["selection"], drawSelection);
  on(["hover"], drawHover);

  const drawMark = ({ tokens, opacity }: Mark, k: number) => {
    const { answer } = explained;
    const span = document.createElement("span");
    const answers = answer && tokens[0] <= answer[1] && tokens[tokens.length - 1] >= answer[0];
    span.className = answers ? "nbsal-mark nbsal-answer" : "nbsal-mark";
    span.id = `${uid}-${k}`;
    span.dataset.mark = String(k);
    span.setAttribute("role", "option");
    span.setAttribute("aria-selected", "false");
    if (opacity !== undefined) span.style.opacity = String(opacity);
    span.textContent = sanitize(textOf(k));
    return span;
  };
  const drawBlock = (first: number, end: number, gaps: string[], tails: string[]) => {
    const box = h("div", { class: "nbsal-block", dir: "auto", role: "presentation" });
    const { part } = marks[first];
    const continues = marks[first - 1]?.part === part;
    for (let k = first; k < end; k++) box.append(k === first && continues ? "" : sanitize(gaps[k]), spans[k]);
    // The gap after a block ends its last line: no line begins with a space.
    const cut = get("_tokens").cut ?? false;
    box.append(marks[end]?.part === part ? sanitize(gaps[end]) : textAfter(tails[part], cut));
    return box;
  };
  const draw = () => {
    shades = [];
    markOf = new Map(marks.flatMap((mark, k) => mark.tokens.map((i) => [i, k])));
    const { gaps, tails } = gapsOf(marks, parts);
    spans = marks.map(drawMark);
    const starts = blocks(marks, gaps, textOf);
    const boxes = parts.map((text, part) => {
      const inside = starts.flatMap((first, b) =>
        marks[first].part === part ? [drawBlock(first, starts[b + 1] ?? marks.length, gaps, tails)] : [],
      );
      const content = inside.length
        ? inside
        : [h("div", { class: "nbsal-block", dir: "auto", role: "presentation" }, text)];
      return h("div", { class: "nbsal-part", role: "presentation" }, ...content);
    });
    node.classList.toggle("nbsal-in-blocks", starts.length > parts.length);
    node.replaceChildren(...boxes);
    pointed = -1;
    selected = new Set();
    active = Math.min(active, Math.max(0, marks.length - 1));
  };
  const paint = () => {
    const [values, scale, top] = painted;
    scores = totals(marks, values);
    order = ranks(scores.map(Math.abs));
    const largest = top ?? largestOf(totals(explained.marks, values));
    shades = spans.map((span, k) => {
      const before = shades[k] ?? UNSHADED;
      const now = shade(scores[k], largest, scale);
      if (now.strength !== before.strength) span.style.setProperty("--s", String(now.strength));
      if (now.against !== before.against) span.classList.toggle("nbsal-against", now.against);
      if (now.faint !== before.faint) span.classList.toggle("nbsal-faint", now.faint);
      return now;
    });
    drawSelection();
    return { scores, largest };
  };

  return {
    node,
    readout,
    /** Whether the text is so long that it scrolls by itself. */
    long: () => marks.length >= LONG,
    /** Lay out a text as it was explained. */
    layOut(next: Layout) {
      explained = next;
      [marks, parts] = [next.marks, next.parts];
      painted = [[], LINEAR, undefined];
      draw();
    },
    /** Show the text as it is typed: words before and after the edit keep their shades until the next result. */
    edit(texts: string[]) {
      if (texts.length === parts.length && texts.every((text, part) => text === parts[part])) return;
      marks = marksAfterEdit(explained.marks, explained.parts, texts);
      parts = texts;
      draw();
      paint();
    },
    /** Colour the text by a score for each token; `top` is the score with full colour, by default the largest. */
    paint(values: ArrayLike<number>, scale = LINEAR, top?: number) {
      painted = [values, scale, top];
      return paint();
    },
    /** The words or tokens on display with their scores. */
    words: () => marks.map((_, k) => weighed(k)),
    /** Scroll to a mark. */
    reveal(k: number) {
      activate(k);
      spans[k]?.scrollIntoView({ block: "center" });
    },
  };
}

/** The text after the last token; if it was cut, the model did not read it. */
const textAfter = (tail: string, cut: boolean) =>
  cut && tail.trim()
    ? h("span", { class: "nbsal-unread", title: "Beyond what the model reads" }, tail)
    : sanitize(tail);
