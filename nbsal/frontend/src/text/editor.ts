// An editor that lies over the text: its letters are transparent, so that the shaded text under it shows through.

import type { Binding, Context } from "../page/context";
import { consume, h, onAbort, throttle } from "../page/dom";
import type { Text } from "../page/traits";
import { isBlank } from "./blank";
import { undrawable } from "./drawable";
import type { ScoredText } from "./scored-text";

const SEND_INTERVAL = 90; // ms between two texts sent to Python
const PLACEHOLDER = "A sentence or two\u2026";

/** What a view does while a text is typed, and when it is to be explained without the pause of a slow method. */
export const typing = ({ markStale, ask, fail }: Pick<Context<never>, "markStale" | "ask" | "fail">) => ({
  stale: markStale,
  refuse: fail,
  skipPause: (text: Text) => void ask("skip_pause", { text }),
});

export function textEditor(
  binding: Binding<Text>,
  text: Pick<ScoredText, "node" | "edit" | "long">,
  { stale, refuse, skipPause }: ReturnType<typeof typing>,
) {
  const { get, set, mirror, live, signal } = binding;
  const layer = h("div", { class: "nbsal-editors", hidden: true });
  const page = h("div", { class: "nbsal-page" }, text.node, layer);
  const button = h(
    "button",
    { class: "nbsal-button nbsal-needs-python", hidden: !live, signal, click: () => open(Boolean(layer.hidden)) },
    "Edit text",
  );
  let areas: HTMLTextAreaElement[] = [];
  let latest: Text | null = null; // sent or followed last
  let drawn: string[] = []; // in the areas before the last key
  let composing = false;

  const values = () => areas.map((area) => area.value);
  const send = () => {
    latest = areas.length > 1 ? [areas[0].value, areas[1].value] : areas[0].value;
    set(latest);
  };
  const sendSoon = throttle(send, SEND_INTERVAL, signal);
  const place = () => {
    page.classList.toggle("nbsal-scrolls", text.long());
    for (const [i, area] of areas.entries()) {
      const part = text.node.children[i] as HTMLElement | undefined;
      if (!part) continue;
      area.style.top = `${part.offsetTop}px`;
      area.style.height = `${part.offsetHeight}px`;
    }
  };
  const onInput = () => {
    const why = undrawable(values());
    if (why) {
      for (const [i, area] of areas.entries()) area.value = drawn[i];
      return refuse(why);
    }
    drawn = values();
    text.edit(drawn);
    place();
    stale();
    if (!composing) sendSoon();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      send();
      skipPause(get());
    }
    if (event.key === "Escape") open(false);
  };
  const compose = (now: boolean) => () => {
    composing = now;
    if (!now) onInput();
  };
  const textArea = (label: string) =>
    h("textarea", {
      class: "nbsal-editor",
      rows: 1,
      "aria-label": label,
      placeholder: PLACEHOLDER,
      spellcheck: "false",
      dir: "auto",
      signal,
      input: onInput,
      keydown: onKeyDown,
      compositionstart: compose(true),
      compositionend: compose(false),
    });
  function open(editing: boolean) {
    if (!live) return;
    layer.hidden = !editing;
    page.classList.toggle("nbsal-editing", editing);
    button.classList.toggle("nbsal-needs-python", !editing); // an editor can be left without Python
    button.textContent = editing ? "Done" : "Edit text";
    text.node.tabIndex = editing ? -1 : 0;
    place();
    if (editing) areas[0]?.focus({ preventScroll: true });
    else text.node.focus({ preventScroll: true });
  }
  /** Follow a text that Python or a link has set. */
  const follow = () => {
    const now = [get()].flat();
    page.classList.toggle("nbsal-blank", live && isBlank(get()));
    if (areas.length !== now.length) {
      areas = (now.length > 1 ? ["First text", "Second text"] : ["Text"]).map(textArea);
      layer.replaceChildren(...areas);
    }
    if (JSON.stringify(get()) === JSON.stringify(latest)) return;
    latest = get();
    for (const [i, area] of areas.entries()) area.value = now[i];
    drawn = now;
    if (live) text.edit(now);
    place();
  };
  mirror(follow);
  text.node.addEventListener("dblclick", () => open(true), { signal });
  text.node.addEventListener("click", () => isBlank(get()) && open(true), { signal });
  text.node.addEventListener(
    "keydown",
    (event) => {
      if (event.key.toLowerCase() !== "e" || event.ctrlKey || event.metaKey || event.altKey) return;
      open(true);
      consume(event);
    },
    { signal },
  );
  const resizeObserver = new ResizeObserver(place);
  resizeObserver.observe(page);
  onAbort(signal, () => resizeObserver.disconnect());

  return {
    page,
    button,
    /** Show the text as typed over the result of an older one, and put the editor over it. */
    refresh() {
      if (live && areas.length) text.edit(values());
      place();
    },
  };
}
