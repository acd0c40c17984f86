// What every view has around it: a root, listeners that end with it, errors, progress, cancel, notes, export.

import type { Context, Model, SavedFile } from "./context";
import { h, onAbort, sanitize, throttle } from "./dom";
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
    const failure = h("p", { class: "nbsal-error", role: "alert", hidden: true });
    const fail = (text: string) => {
      failure.textContent = text;
      failure.hidden = false;
    };
    const guard: Guard = (draw) => {
      try {
        draw();
      } catch (error) {
        fail(`This view cannot be drawn: ${errorText(error)}`); // otherwise only the console would show it
        console.error(error);
      }
    };
    const on = listen(model, signal, guard);
    const context: Context<Traits> = {
      root,
      signal,
      live: model.get("_live"),
      get: (trait) => model.get(trait),
      set: setter(model, signal, fail),
      on,
      mirror(names, call) {
        on(names, call);
        call();
      },
      ask: requests(model, signal),
    };
    on(["_rev"], () => (failure.hidden = true)); // before the view draws the new result
    el.append(root);
    guard(() => build(context));
    root.append(status(context), footer(context), failure);
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

function setter<Traits extends ViewTraits>(model: Model<Traits>, signal: AbortSignal, fail: (text: string) => void) {
  const check = () => {
    try {
      model.send({}); // unlike a message, a trait that reaches nobody raises no error
    } catch {
      fail(DISCONNECTED);
    }
  };
  const checkSometimes = throttle(check, CHECK_INTERVAL, signal);
  return (traits: Partial<Traits>) => {
    for (const name of Object.keys(traits) as (keyof Traits)[]) model.set(name, traits[name] as Traits[keyof Traits]);
    model.save_changes();
    if (model.get("_live")) checkSometimes();
  };
}

/** An error as a sentence; unexpected kinds keep their name. */
const errorText = (error: unknown) =>
  error instanceof Error && error.name === "Error" ? error.message : String(error);

function status({ get, root, mirror, ask, signal }: Context<ViewTraits>) {
  const text = h("span");
  const bar = h("progress", { "aria-label": "Progress" });
  const cancel = h("button", { signal, click: () => ask("cancel").catch(() => {}) }, "Cancel");
  const line = h("div", { class: "nbsal-progress", role: "status", hidden: true }, text, bar, cancel);
  const error = h("p", { class: "nbsal-error", role: "alert" });
  const words = { computing: "Computing…", cancelling: "Cancelling…", cancelled: "Cancelled.", ready: "", error: "" };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const draw = () => {
    const [state, share] = [get("status"), get("progress")];
    const busy = state === "computing" || state === "cancelling";
    const stale = !busy && state !== "ready" && get("_rev") > 0; // the controls no longer match the result
    root.classList.toggle("nbsal-stale", stale);
    text.textContent = stale && state === "cancelled" ? "Cancelled; showing the previous result." : words[state];
    cancel.hidden = state !== "computing";
    bar.hidden = !busy;
    if (share === null) bar.removeAttribute("value");
    else bar.value = share;
    clearTimeout(timer);
    if (busy && line.hidden) timer = setTimeout(() => (line.hidden = false), PROGRESS_DELAY);
    else line.hidden = !busy && state !== "cancelled";
    error.textContent = sanitize(get("error") + (stale && state === "error" ? " Showing the previous result." : ""));
    error.hidden = !get("error");
  };
  mirror(["status", "progress", "error"], draw);
  onAbort(signal, () => clearTimeout(timer));
  return h("div", {}, line, error);
}

function footer({ get, mirror, ask, live, signal }: Context<ViewTraits>) {
  const notes = h("div", { class: "nbsal-notes" });
  const draw = () => notes.replaceChildren(...(get("_result").notes ?? []).map((note) => h("div", {}, note)));
  const save = async (kind: string) => {
    try {
      download(await ask("save", { kind }));
    } catch (error) {
      notes.append(h("div", { class: "nbsal-error", role: "alert" }, errorText(error)));
    }
  };
  const buttons = ["html", "png", "csv"].map((kind) => {
    const name = kind.toUpperCase();
    return h("button", { title: `Save as ${name}`, signal, click: () => save(kind) }, name);
  });
  mirror(["_rev"], draw);
  const group = { class: "nbsal-export", role: "group", "aria-label": "Save as" };
  return h("footer", { class: "nbsal-footer" }, notes, live && h("div", group, "Save as ", ...buttons));
}

function download({ mime, name, content }: SavedFile) {
  const bytes = mime.startsWith("text/") ? content : Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
  const url = URL.createObjectURL(new Blob([bytes], { type: mime }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
