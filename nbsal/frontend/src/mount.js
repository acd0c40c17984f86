// @ts-check
// Mount: what every view has around it: a root, listeners that end with it, errors, progress, cancel, notes, save.

import { ended, h, shown, throttled } from "./dom.js";
import { GONE, requests } from "./request.js";

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
const PULSE = 1000; // ms between looks whether anybody listens

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
    const fail = (/** @type {string} */ why) => {
      broken.textContent = why;
      broken.hidden = false;
    };
    const guarded = (/** @type {() => void} */ draw) => {
      try {
        draw();
      } catch (error) {
        fail(`This view cannot be drawn: ${said(error)}`); // else only the console would know
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
      set: setter(model, signal, fail),
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
  ended(signal, () => {
    for (const event of events) model.off(event, call);
  });
};

/**
 * @param {Model} model
 * @param {AbortSignal} signal
 * @param {(why: string) => void} fail
 * @returns {Context["set"]}
 */
function setter(model, signal, fail) {
  const check = () => {
    try {
      model.send({}); // traits that nobody hears are lost without a word; a message is not
    } catch {
      fail(GONE);
    }
  };
  const look = throttled(check, PULSE, signal);
  return (traits) => {
    for (const [name, value] of Object.entries(traits)) model.set(name, value);
    model.save_changes();
    if (model.get("_live")) look();
  };
}

/**
 * An error as a sentence: those that are none keep their kind.
 * @param {any} error
 */
const said = (error) => (error.name === "Error" ? error.message : String(error));

/** @param {Context} context */
function status({ model, root, mirror, ask, signal }) {
  const doing = h("span");
  const bar = h("progress", { "aria-label": "progress" });
  const stop = h("button", { signal, click: () => ask("cancel").catch(() => {}) }, "Cancel");
  const error = h("p", { class: "nbsal-error", role: "alert" });
  const working = h("div", { class: "nbsal-working", role: "status" }, doing, bar, stop);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const draw = () => {
    const [state, share] = [model.get("status"), model.get("progress")];
    const busy = state === "computing" || state === "cancelling";
    const stale = !busy && state !== "ready" && model.get("_rev") > 0; // controls say one thing, the result another
    const before = stale ? " What is shown came before." : "";
    root.classList.toggle("nbsal-stale", stale);
    doing.textContent = state === "cancelled" ? `Cancelled.${before}` : busy ? state : "";
    stop.hidden = state !== "computing";
    bar.hidden = !busy;
    if (share === null || share === undefined) bar.removeAttribute("value");
    else bar.value = share;
    clearTimeout(timer);
    if (busy && working.hidden) timer = setTimeout(() => (working.hidden = false), PATIENCE);
    else working.hidden = !busy && state !== "cancelled";
    error.textContent = shown(model.get("error") + before);
    error.hidden = !model.get("error");
  };
  working.hidden = true;
  mirror(["status", "progress", "error"], draw);
  ended(signal, () => clearTimeout(timer));
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
      notes.append(h("div", { class: "nbsal-error", role: "alert" }, said(error)));
    }
  };
  const buttons = ["html", "png", "csv"].map((kind) =>
    h("button", { title: `Save as ${kind.toUpperCase()}`, signal, click: () => save(kind) }, kind),
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
