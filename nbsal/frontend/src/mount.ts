// What every view has around it: a root, listeners that end with it, errors, progress, cancel, notes and the state.

import type { Context, Model } from "./context";
import { h, onAbort, sanitize, throttle } from "./dom";
import { formatPercent } from "./format";
import { DISCONNECTED, requests } from "./request";
import type { ViewTraits } from "./traits";

const PROGRESS_DELAY = 150; // ms of work before it is shown: for quick results it would only flicker
const CHECK_INTERVAL = 1000; // ms between two checks whether Python is connected

type Guard = (draw: () => void) => void;

/** An anywidget module whose view is built by `build` in a root of class `nbsal-NAME`. */
export const mount = <Traits extends ViewTraits>(name: string, build: (context: Context<Traits>) => void) => ({
  render({ model, el }: { model: Model<Traits>; el: HTMLElement }) {
    const controller = new AbortController();
    const { signal } = controller;
    const root = h("section", { class: `nbsal nbsal-${name}`, role: "group", "aria-label": `nbsal ${name}` });
    const [main, side] = [h("div", { class: "nbsal-main" }), h("div", { class: "nbsal-side" })];
    const failure = h("p", { class: "nbsal-error", role: "alert", hidden: true });
    const fail = (text: string) => {
      failure.textContent = sanitize(text);
      failure.hidden = false;
    };
    const guard: Guard = (draw) => {
      try {
        draw();
      } catch (error) {
        fail(`This view could not be drawn: ${errorText(error)}`); // otherwise only the console would show it
        console.error(error);
      }
    };
    const on = listen(model, signal, guard);
    const footnote = h("span");
    const context: Context<Traits> = {
      root,
      main,
      side,
      signal,
      live: model.get("_live"),
      get: (trait) => model.get(trait),
      set: setter(model, signal, () => disconnect(context, fail)),
      on,
      mirror(names, call) {
        on(names, call);
        call();
      },
      ask: requests(model, signal),
      fail,
      note: (text) => {
        footnote.textContent = text && sanitize(` \u00b7 ${text}`);
      },
      markStale: () => root.classList.add("nbsal-stale"),
    };
    on(["_rev"], () => (failure.hidden = true)); // before the view draws the new result
    root.append(h("div", { class: "nbsal-columns" }, main, side));
    el.append(root);
    guard(() => build(context));
    root.append(failure, ...status(context, footnote));
    return () => {
      controller.abort();
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

function setter<Traits extends ViewTraits>(model: Model<Traits>, signal: AbortSignal, onClosed: () => void) {
  const check = () => {
    try {
      model.send({}); // unlike a message, a trait that reaches nobody raises no error
    } catch {
      onClosed();
    }
  };
  const checkSometimes = throttle(check, CHECK_INTERVAL, signal);
  return (traits: Partial<Traits>) => {
    for (const name of Object.keys(traits) as (keyof Traits)[]) model.set(name, traits[name] as Traits[keyof Traits]);
    model.save_changes();
    if (model.get("_live")) checkSometimes();
  };
}

/** Python is gone: what needs it cannot be used any more, and what is shown may be of another text. */
function disconnect<Traits extends ViewTraits>({ root, markStale }: Context<Traits>, fail: (text: string) => void) {
  fail(DISCONNECTED);
  markStale();
  root.classList.add("nbsal-disconnected");
  for (const element of root.querySelectorAll<HTMLButtonElement>(
    ".nbsal-tools :is(button, input, select), button.nbsal-class",
  ))
    element.disabled = true;
}

/** An error as a sentence; unexpected kinds keep their name. */
const errorText = (error: unknown) =>
  error instanceof Error && error.name === "Error" ? error.message : String(error);

/** Progress, the error of the last computation, and the last line with the notes and the state. */
function status({ get, root, mirror, on, ask, signal, live }: Context<ViewTraits>, footnote: HTMLElement) {
  const work = h("div", { class: "nbsal-work", hidden: true });
  const error = h("p", { class: "nbsal-error", role: "alert", hidden: true });
  const notes = h("div", { class: "nbsal-notes" });
  const cancel = h(
    "button",
    { class: "nbsal-link", hidden: true, signal, click: () => ask("cancel").catch(() => {}) },
    "Cancel",
  );
  const state = h("span");
  const line = h("span", { class: "nbsal-state", role: "status" }, state);
  let timer: ReturnType<typeof setTimeout> | undefined;

  const showWork = (busy: boolean) => {
    const share = get("progress");
    work.hidden = cancel.hidden = !busy;
    work.style.setProperty("--done", share === null ? "100%" : formatPercent(share, 0).replace("\u202f", ""));
    work.setAttribute("data-progress", share === null ? "" : String(share));
  };
  const draw = () => {
    const status = get("status");
    const busy = status === "computing" || status === "cancelling";
    root.classList.toggle("nbsal-stale", status !== "ready" && get("_rev") > 0); // the controls have changed since
    root.setAttribute("aria-busy", String(busy));
    const [name, words] = stateOf(get, live);
    line.dataset.state = name;
    state.textContent = words;
    clearTimeout(timer);
    if (busy && work.hidden) timer = setTimeout(() => showWork(true), PROGRESS_DELAY);
    else showWork(busy);
    error.textContent = sanitize(get("error"));
    error.hidden = !get("error");
  };
  const drawNotes = () => {
    notes.replaceChildren(sanitize((get("_result").notes ?? []).join(" \u00b7 ")), footnote);
    notes.title = get("_result").settings ?? "";
  };
  mirror(["status", "progress", "error"], draw);
  on(["_rev"], draw);
  mirror(["_rev"], drawNotes);
  onAbort(signal, () => clearTimeout(timer));
  return [
    work,
    error,
    h("footer", { class: "nbsal-footer" }, notes, h("span", { class: "nbsal-state-line" }, line, cancel)),
  ];
}

function stateOf(get: Context<ViewTraits>["get"], live: boolean): [string, string] {
  if (!live) return ["snapshot", `Snapshot of ${get("_saved")} \u00b7 run the cell to change it`];
  const [status, progress, seconds] = [get("status"), get("progress"), get("_seconds")];
  const share = progress === null ? "" : ` ${formatPercent(progress, 0)}`;
  if (status === "computing") return [status, progress === null ? "Updating\u2026" : `Computing\u2026${share}`];
  if (status === "cancelling") return [status, "Stopping\u2026"];
  if (status === "cancelled") return [status, get("_rev") ? "Cancelled; showing the result before" : "Cancelled"];
  if (status === "error") return [status, "Not computed"];
  return ["ready", get("_rev") && seconds !== null ? `Up to date \u00b7 ${seconds.toFixed(1)} s` : "Ready"];
}
