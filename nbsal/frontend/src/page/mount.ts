// What every view has around it: a root, listeners that end with it, errors, progress, cancel, notes and the state.

import { isBlank } from "../text/blank";
import { disableControls, sender } from "./connection";
import type { Context, Model } from "./context";
import { DamagedData } from "./decode";
import { debounce, h, onAbort, sanitize } from "./dom";
import { keepFocus } from "./focus";
import { freshness, resultDrawing } from "./freshness";
import { nextLine } from "./next-line";
import { requests, STOPPED } from "./request";
import type { Status, ViewTraits } from "./traits";

const PROGRESS_DELAY = 150; // ms of work before it is shown: for quick results it would only flicker
const TYPING_PAUSE = 400; // ms after the last key, until which a view stays dim: results of each letter would flicker

/** Of a view without an explainer, whose result was passed to it. */
const FINISHED = "A finished result \u00b7 pass an explainer to change it";
const NOT_DRAWN = "This view could not be drawn. Run the cell again.";
const CANCELLED = { preview: "Cancelled; showing a preview", result: "Cancelled; showing the previous result" };
const BUSY: Status[] = ["computing", "cancelling"];

type Guard = (draw: () => void) => void;

interface Condition {
  /** Whether any control has changed since the result. */
  isOutdated(): boolean;
  isStopped(): boolean;
}

/** An anywidget module whose view is built by `build` in a root of class `nbsal-NAME`. */
export const mount = <Traits extends ViewTraits>(name: string, build: (context: Context<Traits>) => void) => ({
  render({ model, el }: { model: Model<Traits>; el: HTMLElement }) {
    const controller = new AbortController();
    const { signal } = controller;
    const properties = { role: "group", "aria-label": `nbsal ${name}`, "data-lm-suppress-shortcuts": "true" };
    const root = h("section", { class: `nbsal nbsal-${name}`, ...properties });
    const [main, side] = [h("div", { class: "nbsal-main" }), h("div", { class: "nbsal-side" })];
    const failure = h("div", { class: "nbsal-error", role: "alert", hidden: true });
    const live = model.get("_live");
    const fresh = freshness(model);
    let stopped = false; // whether Python can be reached no longer
    const fail = (text: string, details = "") => {
      if (text === STOPPED) return stop();
      const more = details && h("details", {}, h("summary", { tabindex: 0 }, "Details"), h("p", {}, details));
      failure.replaceChildren(h("span", {}, text), more);
      failure.hidden = false;
    };
    const stop = () => {
      if (stopped) return;
      stopped = true;
      root.classList.add("nbsal-stopped");
      disableControls(root, signal);
      foot.draw();
    };
    const guard: Guard = (draw) => {
      try {
        draw();
      } catch (error) {
        if (error instanceof DamagedData) fail(error.message);
        else fail(NOT_DRAWN, errorText(error));
        console.error(error);
      }
    };
    const listenTo = listen(model, signal, guard);
    const results = resultDrawing(fresh.isOlder);
    const on: Context<Traits>["on"] = (names, draw) => {
      listenTo(
        names.filter((name) => name !== "_rev"),
        draw,
      );
      if (names.includes("_rev")) results.add(() => guard(draw));
    };
    const isWaiting = () => !stopped && (fresh.isOutdated() || BUSY.includes(model.get("status")));
    const endTyping = debounce(() => root.classList.remove("nbsal-typing"), TYPING_PAUSE, signal);
    const send = sender(model, live, signal, { isWaiting, onStopped: stop });
    const footnote = h("span");
    const request = requests(model, signal);
    const context: Context<Traits> = {
      root,
      main,
      side,
      signal,
      live,
      get: (trait) => model.get(trait),
      set(traits) {
        if ("text" in traits) fresh.setUnsent(false);
        send(stopped ? withoutInputs(traits, model.get("_inputs")) : traits);
        results.release();
        foot.draw();
      },
      on,
      mirror(names, call) {
        on(names, call);
        call();
      },
      ask: (name, settings) =>
        request(name, settings).catch(({ message }) => {
          fail(message);
          return undefined;
        }),
      fail,
      note: (text) => {
        footnote.textContent = text && sanitize(` \u00b7 ${text}`);
      },
      markStale() {
        fresh.setUnsent(true);
        root.classList.add("nbsal-typing");
        endTyping();
        foot.draw();
      },
      retitle: (text) => foot.drawNotes(text),
      isOlder: fresh.isOlder,
    };
    on(["_rev"], () => (failure.hidden = true)); // before the view draws the new result
    const foot = status(context, footnote, { isOutdated: fresh.isOutdated, isStopped: () => stopped });
    listenTo(["_rev"], results.drawAll);
    root.append(h("div", { class: "nbsal-columns" }, main, side));
    el.append(root);
    keepFocus(root, signal);
    guard(() => build(context));
    placeErrors(main, [failure, foot.error]);
    const next = nextLine(context as unknown as Context<ViewTraits>, model as unknown as Model<ViewTraits>);
    root.append(next.node, ...foot.nodes);
    el.append(next.below);
    return () => {
      controller.abort();
      next.below.remove();
      root.remove();
    };
  },
});

const listen =
  <Traits>(model: Model<Traits>, signal: AbortSignal, guard: Guard): Context<Traits>["on"] =>
  (names, draw) => {
    const events = names.map((name) => `change:${name}`);
    const listener = () => guard(draw);
    for (const event of events) model.on(event, listener);
    onAbort(signal, () => {
      for (const event of events) model.off(event, listener);
    });
  };

/** The traits that Python need not answer, and the text, which is kept as typed. */
const withoutInputs = <Traits extends ViewTraits>(traits: Partial<Traits>, inputs: object) =>
  Object.fromEntries(
    Object.entries(traits).filter(([name]) => name === "text" || !(name in inputs)),
  ) as Partial<Traits>;

/** An error as a sentence; unexpected kinds keep their name. */
const errorText = (error: unknown) =>
  error instanceof Error && error.name === "Error" ? error.message : String(error);

/** Put errors where they are seen: below the text, or below the headline of a view without one that is typed. */
function placeErrors(main: HTMLElement, errors: HTMLElement[]) {
  const isText = (part: Element) => part.matches(".nbsal-page") || part.querySelector(".nbsal-page") !== null;
  const anchor = [...main.children].find(isText) ?? main.querySelector(".nbsal-headline");
  if (anchor) anchor.after(...errors);
  else main.prepend(...errors);
}

/** Progress, the error of the last computation, and the last line with the notes and the state. */
function status(context: Context<ViewTraits>, footnote: HTMLElement, { isOutdated, isStopped }: Condition) {
  const { get, root, mirror, on, ask, signal, live } = context;
  const work = h("div", { class: "nbsal-work", hidden: true });
  const error = h("p", { class: "nbsal-error", role: "alert", hidden: true });
  const notes = h("div", { class: "nbsal-notes" });
  const cancel = h("button", { class: "nbsal-link", hidden: true, signal, click: () => ask("cancel") }, "Cancel");
  const state = h("span");
  const line = h("span", { class: "nbsal-state", role: "status" }, state);
  let timer: ReturnType<typeof setTimeout> | undefined;

  const showWork = (busy: boolean) => {
    clearTimeout(timer);
    timer = undefined;
    const share = get("progress");
    work.hidden = cancel.hidden = !busy;
    work.style.setProperty("--done", `${100 * (share ?? 1)}%`);
    work.setAttribute("data-progress", share === null ? "" : String(share));
  };
  const draw = () => {
    const status = get("status");
    const busy = BUSY.includes(status) && !isStopped();
    const [outdated, preview] = [isOutdated(), get("_preview") && status !== "error"];
    const holds = !outdated && (status === "ready" || preview);
    root.classList.toggle("nbsal-blank", isBlank(get("text")));
    root.classList.toggle("nbsal-stale", !holds && get("_rev") > 0);
    root.classList.toggle("nbsal-preview", holds && preview);
    root.setAttribute("aria-busy", String(busy));
    const [name, words] = isStopped() ? ["stopped", STOPPED] : stateOf(get, live, outdated);
    line.dataset.state = name;
    if (state.textContent !== words) state.textContent = words; // or the same words would be read out again
    if (busy && work.hidden) timer ??= setTimeout(() => showWork(true), PROGRESS_DELAY);
    else showWork(busy);
    const message = sanitize(get("error"));
    const waits = busy && !error.hidden && !message; // it keeps its room until the next result
    error.hidden = isBlank(get("text")) || !(message || waits);
    error.classList.toggle("nbsal-outdated", waits);
    if (message) error.textContent = message;
  };
  const drawNotes = (title = "") => {
    const [first = "", ...rest] = get("_result").notes ?? [];
    notes.replaceChildren(sanitize([title || first, ...rest].filter(Boolean).join(" \u00b7 ")), footnote);
    notes.title = get("_result").settings ?? "";
  };
  mirror(["status", "progress", "error"], draw);
  on(["_rev"], draw);
  mirror(["_rev"], () => drawNotes());
  onAbort(signal, () => clearTimeout(timer));
  const footer = h(
    "footer",
    { class: "nbsal-footer nbsal-small" },
    notes,
    h("span", { class: "nbsal-state-line" }, line, cancel),
  );
  return { error, nodes: [work, footer], draw, drawNotes };
}

function stateOf(get: Context<ViewTraits>["get"], live: boolean, outdated: boolean): [string, string] {
  if (!live) return ["snapshot", get("_saved") || FINISHED];
  const status = get("status");
  const preview = get("_preview") ? " \u00b7 preview" : "";
  const computing = (get("progress") === null ? "Updating\u2026" : `Computing\u2026 ${get("_left")}`) + preview;
  if (status === "computing" || (status === "ready" && outdated)) return ["computing", computing];
  if (status === "cancelling") return [status, "Stopping\u2026"];
  if (status === "cancelled") return [status, get("_rev") ? CANCELLED[preview ? "preview" : "result"] : "Cancelled"];
  if (status === "error" && isBlank(get("text"))) return ["ready", "Ready"];
  if (status === "error") return [status, "Not computed"];
  return ["ready", (get("_rev") && get("_seconds")) || "Ready"];
}
