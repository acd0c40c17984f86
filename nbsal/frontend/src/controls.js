// @ts-check
// Controls: labelled inputs, each bound to one trait. What Python alone can answer is disabled in a saved page.

import { h, settled, throttled } from "./dom.js";

/** @typedef {import("./mount.js").Context} Context */
/** @typedef {{ value: any, name: string, group?: string }} Option */

export const SHADED = ["level", "signed", "gamma", "clip"]; // the traits of `shading`
const RATE = 50; // ms between messages of one control
const TYPING = 300; // ms without a key after which a typed text is explained

/**
 * A choice among options, which may change; what the trait holds beside them is listed too.
 * @param {Context} context
 * @param {string} trait
 * @param {string} label
 * @param {() => Option[]} options
 * @param {boolean} [free] whether the page answers it alone
 */
export function choice({ model, mirror, set, live, signal }, trait, label, options, free = false) {
  /** @type {Option[]} */
  let listed = [];
  const pick = () => set({ [trait]: listed[input.selectedIndex].value });
  const input = h("select", { "data-trait": trait, disabled: !live && !free, signal, change: pick });
  const draw = () => {
    const value = model.get(trait);
    const same = (/** @type {Option} */ o) => JSON.stringify(o.value) === JSON.stringify(value);
    listed = options();
    if (!listed.some(same)) listed = [...listed, { value, name: worded(value) }];
    input.replaceChildren(...grouped(listed));
    input.selectedIndex = listed.findIndex(same);
  };
  mirror([trait], draw);
  return h("label", {}, label, input);
}

/** @param {Option[]} options */
function grouped(options) {
  /** @type {HTMLElement[]} */
  const found = [];
  for (const { name, group } of options) {
    const option = h("option", {}, name);
    const last = found.at(-1);
    if (!group) found.push(option);
    else if (last instanceof HTMLOptGroupElement && last.label === group) last.append(option);
    else found.push(h("optgroup", { label: group }, option));
  }
  return found;
}

/**
 * A target as people say it.
 * @param {any} value
 */
const worded = (value) =>
  value?.contrast ? value.contrast.join(" \u2212 ") : Array.isArray(value) ? value.join(", ") : String(value);

/**
 * A number set by dragging; it is shown beside.
 * @param {Context} context
 * @param {string} trait
 * @param {string} label
 * @param {{ min: number, max: number, step: number, python?: boolean, title?: string }} settings `python`: only Python can
 *   answer; `title` says what it does
 */
export function slider({ model, mirror, set, live, signal }, trait, label, { min, max, step, python = false, title }) {
  const value = h("output", {});
  const send = throttled((/** @type {number} */ chosen) => set({ [trait]: chosen }), RATE, signal);
  const moved = () => {
    value.textContent = input.value;
    send(input.valueAsNumber);
  };
  const disabled = python && !live;
  const input = h("input", { type: "range", min, max, step, "data-trait": trait, disabled, signal, input: moved });
  const draw = () => {
    const now = model.get(trait);
    input.value = String(now ?? min);
    value.textContent = now === null || now === undefined ? "" : String(now);
  };
  mirror([trait], draw);
  return h("label", { title }, label, input, value);
}

/**
 * A whole number, or nothing: "all".
 * @param {Context} context
 * @param {string} trait
 * @param {string} label
 * @param {string} title
 */
export function optional({ model, mirror, set, live, signal }, trait, label, title) {
  const send = () => {
    set({ [trait]: input.value && input.valueAsNumber >= 1 ? Math.round(input.valueAsNumber) : null });
    draw(); // what was typed and means nothing goes
  };
  const input = h("input", {
    type: "number",
    min: 1,
    placeholder: "all",
    "data-trait": trait,
    disabled: !live,
    signal,
    change: send,
    keydown: stopped,
  });
  const draw = () => {
    input.value = model.get(trait) ?? "";
  };
  mirror([trait], draw);
  return h("label", { title }, label, input);
}

/**
 * On or off.
 * @param {Context} context
 * @param {string} trait
 * @param {string} label
 * @param {[any, any]} values what off and on stand for
 */
export function toggle({ model, mirror, set, signal }, trait, label, values = [false, true]) {
  const send = () => set({ [trait]: values[Number(input.checked)] });
  const input = h("input", { type: "checkbox", "data-trait": trait, signal, change: send });
  const draw = () => {
    input.checked = model.get(trait) === values[1];
  };
  mirror([trait], draw);
  return h("label", {}, input, label);
}

/**
 * The text, or the pair, to be typed in; explained when typing pauses, or at once on Ctrl+Enter.
 * @param {Context} context
 * @param {string} trait
 */
export function editor({ model, mirror, set, live, signal }, trait = "text") {
  const box = h("div", { class: "nbsal-editor" });
  const send = () => set({ [trait]: areas().length > 1 ? areas().map((a) => a.value) : areas()[0].value });
  const later = settled(send, TYPING, signal);
  const areas = () => [...box.querySelectorAll("textarea")];
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    event.stopPropagation();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  };
  const draw = () => {
    const parts = [model.get(trait)].flat();
    if (areas().length !== parts.length) {
      const labels = parts.length > 1 ? ["first text", "second text"] : ["text"];
      const made = labels.map((label) =>
        h("textarea", {
          rows: 1,
          "aria-label": label,
          spellcheck: "false",
          disabled: !live,
          signal,
          input: later,
          keydown: pressed,
        }),
      );
      box.replaceChildren(...made);
    }
    areas().forEach((area, i) => {
      if (area.value !== parts[i] && !area.matches(":focus")) area.value = parts[i];
    });
  };
  mirror([trait], draw);
  return box;
}

/**
 * The controls of a bound explainer: method, layer, target, tau. `prefix` is that of a second explainer's traits.
 * @param {Context} context
 * @param {{ prefix?: string, layer?: boolean }} [settings]
 */
export function explaining(context, { prefix = "", layer: layered = true } = {}) {
  const { model, mirror, live } = context;
  const offered = () => model.get(`_${prefix}choices`);
  const targets = () => [
    { value: null, name: "predicted" },
    ...offered().labels.map((/** @type {string} */ name) => ({ value: name, name })),
  ];
  const methods = () => offered().methods.map((/** @type {any[]} */ [name, group]) => ({ value: name, name, group }));
  const layer = slider(context, `${prefix}layer`, "layer", { min: 0, max: offered().depth, step: 1, python: true });
  const tau = optional(context, `${prefix}tau`, "tau", "counts tokens among so many likeliest");
  const fit = () => {
    const [, , reads, decodes] =
      offered().methods.find((/** @type {any[]} */ m) => m[0] === model.get(`${prefix}method`)) ?? [];
    layer.hidden = !layered || !live || !reads;
    tau.hidden = !live || !decodes;
  };
  mirror([`${prefix}method`], fit);
  const method = choice(context, `${prefix}method`, "method", methods);
  const target = choice(context, `${prefix}target`, "explain", targets);
  return [method, layer, target, ...selected(context, prefix), tau];
}

/**
 * A button that explains the selected span, or the selected token's label, where the model decides about such.
 * @param {Context} context
 * @param {string} prefix
 */
function selected({ model, mirror, set, live, signal }, prefix) {
  const task = model.get(`_${prefix}choices`).task;
  if (!live || !["span", "token"].includes(task)) return [];
  const send = () => {
    const [first, last] = [model.get("selection")[0], model.get("selection").at(-1)];
    set({ [`${prefix}target`]: task === "span" ? [first, last] : [first, null] });
  };
  const button = h("button", { signal, click: send }, "explain the selection");
  const fit = () => {
    button.disabled = !model.get("selection").length;
  };
  mirror(["selection"], fit);
  return [button];
}

/**
 * How scores are shaded: words or tokens, signed or not, gamma and clip.
 * @param {Context} context
 */
export const shading = (context) => [
  toggle(context, "level", "words", ["token", "word"]),
  toggle(context, "signed", "signed"),
  slider(context, "gamma", "gamma", { min: 0.2, max: 3, step: 0.1, title: "below 1 brings out small scores" }),
  slider(context, "clip", "clip", {
    min: 0.05,
    max: 1,
    step: 0.05,
    title: "full colour from this share on",
  }),
];

/**
 * What has full colour: the largest of each row by itself, or of all.
 * @param {Context} context
 * @param {string} own
 * @param {string} shared
 */
export function fullAt(context, own, shared) {
  const options = [
    { value: "own", name: own },
    { value: "shared", name: shared },
  ];
  return choice(context, "scale", "full colour at", () => options, true);
}

/**
 * The scale that these controls set.
 * @param {import("./mount.js").Model} model
 */
export const colours = (model) => ({ signed: model.get("signed"), gamma: model.get("gamma"), clip: model.get("clip") });

/** @param {Event} event */
export const stopped = (event) => event.stopPropagation();
