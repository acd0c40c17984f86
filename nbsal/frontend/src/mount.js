// @ts-check
// Mount: what every view has around it: a root, listeners that end with it, errors, progress, cancel, notes, save.

import { h, shown } from "./dom.js";
import { requests } from "./request.js";

/** @typedef {import("@anywidget/types").AnyModel<any>} Model */
/**
 * What a view builds with. `on` listens to traits, and `mirror` calls at once too; `set` changes them for Python to hear,
 * `ask` asks Python by message.
 * @typedef {object} Context
 * @property {Model} model
 * @property {HTMLElement} root
 * @property {AbortSignal} signal
 * @property {(names: string[], call: () => void) => void} on
 * @property {(names: string[], call: () => void) => void} mirror
 * @property {(traits: Record<string, any>) => void} set
 * @property {(name: string, settings?: Record<string, any>) => Promise<any>} ask
 * @property {boolean} live whether Python answers
 */

const PATIENCE = 150; // ms of work before it is spoken of: quick answers would only flicker

/**
 * @param {string} name as in the root's class
 * @param {(context: Context) => void} build
 */
export const mount = (name, build) => ({
  /** @param {{ model: Model, el: HTMLElement }} given */
  render({ model, el }) {
    const closing = new AbortController();
    const { signal } = closing;
    const root = h("section", {
      class: `nbsal nbsal-${name}`,
      role: "group",
      "aria-label": `nbsal ${name}`,
    });
    const broken = h("p", { class: "nbsal-error", role: "alert", hidden: true });
    const guarded = (/** @type {() => void} */ draw) => {
      try {
        draw();
      } catch (error) {
        broken.textContent = `This view cannot be drawn: ${error}`; // else only the console would know
        broken.hidden = false;
        console.error(error);
      }
    };
    const on = listener(model, signal, guarded);
    const context = {
      model,
      root,
      signal,
      on,
      mirror(/** @type {string[]} */ names, /** @type {() => void} */ call) {
        on(names, call);
        call();
      },
      set: setter(model),
      ask: requests(model, signal),
      live: model.get("_live"),
    };
    on(["_rev"], () => (broken.hidden = true)); // before what draws it anew
    el.append(root);
    guarded(() => build(context));
    root.append(status(context), foot(context), broken);
    return () => {
      closing.abort();
      root.remove();
    };
  },
});

/**
 * @param {Model} model
 * @param {AbortSignal} signal
 * @param {(draw: () => void) => void} guarded
 * @returns {Context["on"]}
 */
const listener = (model, signal, guarded) => (names, draw) => {
  const events = names.map((name) => `change:${name}`);
  const call = () => guarded(draw);
  for (const event of events) model.on(event, call);
  signal.addEventListener("abort", () => {
    for (const event of events) model.off(event, call);
  });
};

/**
 * @param {Model} model
 * @returns {Context["set"]}
 */
const setter = (model) => (traits) => {
  for (const [name, value] of Object.entries(traits)) model.set(name, value);
  model.save_changes();
};

/** @param {Context} context */
function status({ model, mirror, ask, signal }) {
  const said = h("span");
  const bar = h("progress", { "aria-label": "progress" });
  const stop = h("button", { type: "button", signal, click: () => ask("cancel").catch(() => {}) }, "Cancel");
  const error = h("p", { class: "nbsal-error", role: "alert" });
  const working = h("div", { class: "nbsal-working", role: "status" }, said, bar, stop);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const draw = () => {
    const [state, share] = [model.get("status"), model.get("progress")];
    const busy = state === "computing" || state === "cancelling";
    said.textContent = state === "ready" || state === "error" ? "" : state;
    stop.hidden = state !== "computing";
    bar.hidden = !busy;
    if (share === null || share === undefined) bar.removeAttribute("value");
    else bar.value = share;
    clearTimeout(timer);
    if (busy && working.hidden) timer = setTimeout(() => (working.hidden = false), PATIENCE);
    else working.hidden = !busy && state !== "cancelled";
    error.textContent = shown(model.get("error"));
    error.hidden = !model.get("error");
  };
  working.hidden = true;
  mirror(["status", "progress", "error"], draw);
  signal.addEventListener("abort", () => clearTimeout(timer));
  return h("div", {}, working, error);
}

/** @param {Context} context */
function foot({ model, mirror, ask, live, signal }) {
  const notes = h("div", { class: "nbsal-notes" });
  const draw = () =>
    notes.replaceChildren(...(model.get("_result")?.notes ?? []).map((/** @type {string} */ n) => h("div", {}, n)));
  const save = async (/** @type {string} */ kind) => {
    try {
      download(await ask("save", { kind }));
    } catch (error) {
      notes.append(h("div", { class: "nbsal-error", role: "alert" }, String(error)));
    }
  };
  const buttons = ["html", "png", "csv"].map((kind) =>
    h("button", { type: "button", title: `Save as ${kind.toUpperCase()}`, signal, click: () => save(kind) }, kind),
  );
  mirror(["_rev"], draw);
  const saves = live && h("div", { class: "nbsal-saves", role: "group", "aria-label": "Save as" }, "save ", ...buttons);
  return h("footer", { class: "nbsal-foot" }, notes, saves);
}

/** @param {{ mime: string, name: string, content: string }} file */
function download({ mime, name, content }) {
  const bytes = mime.startsWith("text/") ? content : Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
  const url = URL.createObjectURL(new Blob([bytes], { type: mime }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
