// A text with its scores as shades, which is read, searched and selected by mouse and keys.

import { LINEAR, type Shade, shade, UNSHADED } from "./colour";
import type { Context } from "./context";
import { closest, consume, h, liveRegion, sanitize, throttle, uniqueId } from "./dom";
import { formatScore } from "./format";
import { nextItem } from "./keyboard";
import { blocks, range } from "./layout";
import { gapsOf, largestOf, type Mark, ranks, totals } from "./marks";
import type { ExplanationTraits } from "./traits";

export const LONG = 400; // marks from which a text scrolls by itself and has a minimap
const HOVER_INTERVAL = 60; // ms between two hovers sent to Python

type TextContext = Context<ExplanationTraits>;
type Modifiers = Pick<MouseEvent, "shiftKey" | "ctrlKey" | "metaKey">;

/** Send Python the token under the pointer. */
export const hoverSender = ({ set, signal }: TextContext) =>
  throttle((hover: number | null) => set({ hover }), HOVER_INTERVAL, signal);

export type ScoredText = ReturnType<typeof scoredText>;

/** @param readout where the token under the pointer or the keys is described */
export function scoredText(context: TextContext, label = "Tokens", readout = liveRegion()) {
  const { get, on, set, signal } = context;
  const uid = uniqueId();
  let marks: Mark[] = [];
  let spans: HTMLElement[] = [];
  let names: string[] = [];
  let scores: number[] = [];
  let shades: Shade[] = []; // what the spans have now
  let rankCache: number[] | null = null;
  let markOf = new Map<number, number>(); // token -> mark
  let selected = new Set<number>();
  let active = 0;
  let anchor = 0;

  const rankOf = () => (rankCache ??= ranks(scores));
  const markAt = (event: Event) => Number(closest(event, ".nbsal-mark")?.dataset.mark ?? -1);
  const describe = (k: number) => {
    readout.textContent = marks[k]
      ? `${k + 1} of ${marks.length}: ${names[k]}, ${formatScore(scores[k])}, rank ${rankOf()[k]}`
      : "";
  };

  const select = (ks: number[]) => set({ selection: ks.flatMap((k) => marks[k].tokens).sort((a, b) => a - b) });
  const activate = (k: number) => {
    spans[active]?.classList.remove("nbsal-active");
    active = k;
    spans[k]?.classList.add("nbsal-active");
    node.setAttribute("aria-activedescendant", `${uid}-${k}`);
    describe(k);
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
    if (inside.length) select(inside);
  };
  const onPointerOver = (event: PointerEvent) => {
    const k = markAt(event);
    if (k < 0) return;
    describe(k);
    hover(marks[k].tokens[0]);
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
  const marksByRank = () => {
    const order: number[] = [];
    for (const [k, rank] of rankOf().entries()) order[rank - 1] = k;
    return order;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const k = nextItem(event, active, marks.length, { ranked: marksByRank, line: markInNextLine });
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
    pointerleave: () => hover(null),
    keydown: onKeyDown,
    focus: () => activate(active),
  });

  const drawSelection = () => {
    const next = new Set(get("selection").map((i) => markOf.get(i) ?? -1));
    for (const k of selected) if (!next.has(k)) spans[k]?.setAttribute("aria-selected", "false");
    for (const k of next) spans[k]?.setAttribute("aria-selected", "true");
    next.delete(-1);
    selected = next;
  };
  const drawHover = () => {
    node.querySelector(".nbsal-hover")?.classList.remove("nbsal-hover");
    const k = markOf.get(get("hover") ?? -1);
    if (k !== undefined) spans[k].classList.add("nbsal-hover");
  };
  on(["selection"], drawSelection);
  on(["hover"], drawHover);

  const drawMark = (mark: Mark, k: number, text: string, answer: [number, number] | null) => {
    const span = document.createElement("span");
    const answers = answer && mark.tokens[0] <= answer[1] && mark.tokens[mark.tokens.length - 1] >= answer[0];
    span.className = answers ? "nbsal-mark nbsal-answer" : "nbsal-mark";
    span.id = `${uid}-${k}`;
    span.dataset.mark = String(k);
    span.setAttribute("role", "option");
    span.setAttribute("aria-selected", "false");
    span.textContent = text;
    return span;
  };

  return {
    node,
    readout,
    /** Lay out a text, with the tokens of an answer span marked. */
    layOut(next: Mark[], parts: string[], nameOf: (k: number) => string, answer: [number, number] | null = null) {
      marks = next;
      rankCache = null;
      shades = [];
      markOf = new Map(marks.flatMap((mark, k) => mark.tokens.map((i) => [i, k])));
      const { gaps, tails } = gapsOf(marks, parts);
      const cut = get("_tokens").cut ?? false;
      const textOf = (k: number) => sanitize(parts[marks[k].part].slice(marks[k].start, marks[k].end));
      names = marks.map((_, k) => nameOf(k));
      spans = marks.map((mark, k) => drawMark(mark, k, textOf(k), answer));
      const starts = blocks(marks, gaps, textOf);
      const boxes = starts.map((first, b) => {
        const box = h("div", { class: "nbsal-block", dir: "auto", role: "presentation" });
        const end = starts[b + 1] ?? marks.length;
        const { part } = marks[first];
        const continues = marks[first - 1]?.part === part;
        for (let k = first; k < end; k++) box.append(k === first && continues ? "" : sanitize(gaps[k]), spans[k]);
        // The gap after a block ends its last line: no line begins with a space.
        box.append(marks[end]?.part === part ? sanitize(gaps[end]) : textAfter(tails[part], cut));
        return box;
      });
      node.classList.toggle("nbsal-long", marks.length >= LONG);
      node.classList.toggle("nbsal-in-blocks", boxes.length > parts.length);
      node.replaceChildren(...boxes);
      readout.textContent = "";
      selected = new Set();
      active = Math.min(active, Math.max(0, marks.length - 1));
      drawSelection();
    },
    /** Colour the text by a score for each token; `top` is the score with full colour, by default the largest. */
    paint(values: ArrayLike<number>, scale = LINEAR, top?: number) {
      scores = totals(marks, values);
      rankCache = null;
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
    /** Scroll to a mark. */
    reveal(k: number) {
      activate(k);
      spans[k]?.scrollIntoView({ block: "center" });
    },
  };
}

/** The text after the last token; if it was cut, the model did not read it. */
const textAfter = (tail: string, cut: boolean) =>
  cut && tail.trim() ? h("span", { class: "nbsal-unread", title: "Not read by the model" }, tail) : sanitize(tail);
