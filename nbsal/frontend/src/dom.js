// @ts-check
// DOM: elements from names, properties and children. Text goes in as text alone: no markup is ever parsed.

const FOCUSED = ["button", "input", "select", "textarea"];

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [properties] attributes; functions are listeners, on the `signal` among them
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, { signal, ...properties } = {}, ...children) {
  const made = document.createElement(tag);
  if (tag === "button") made.setAttribute("type", tag); // else it would submit a form around it
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(name, value, { signal });
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  // JupyterLab takes keys for its own unless the very element that has the focus says no.
  if (FOCUSED.includes(tag) || "tabindex" in properties) made.setAttribute("data-lm-suppress-shortcuts", "true");
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false).map(visible));
  return made;
}

/** A line that is read out when it changes. */
export const spoken = () => h("div", { class: "nbsal-said", "aria-live": "polite" });

/**
 * Calls when the view closes.
 * @param {AbortSignal} signal
 * @param {() => void} call
 */
export const ended = (signal, call) => signal.addEventListener("abort", call);

/** A name for elements of one view that no other view's have. */
export const unique = () => Math.random().toString(36).slice(2, 8);

/**
 * Let nothing else answer to a key.
 * @param {Event} event
 */
export function taken(event) {
  event.preventDefault();
  event.stopPropagation();
}

/** @param {Node | string | boolean} child */
const visible = (child) => (typeof child === "string" ? shown(child) : /** @type {Node} */ (child));

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is made harmless
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Text with control characters, and those that turn the reading direction, made harmless, as in `render.py`.
 * @param {string} text
 */
export const shown = (text) =>
  text.replace(CONTROL, (c) => (c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : "\ufffd"));

/**
 * Calls at most every `ms`, and once more with the last arguments.
 * @template {any[]} A
 * @param {(...given: A) => void} call
 * @param {number} ms
 * @param {AbortSignal} signal
 */
export function throttled(call, ms, signal) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {A | null} */
  let last = null;
  const flush = () => {
    timer = undefined;
    if (!last) return;
    const given = last;
    last = null;
    call(...given);
    timer = setTimeout(flush, ms);
  };
  ended(signal, () => clearTimeout(timer));
  return (/** @type {A} */ ...given) => {
    last = given;
    if (timer === undefined) flush();
  };
}

/**
 * Calls once no further call came for `ms`.
 * @template {any[]} A
 * @param {(...given: A) => void} call
 * @param {number} ms
 * @param {AbortSignal} signal
 */
export function settled(call, ms, signal) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  ended(signal, () => clearTimeout(timer));
  return (/** @type {A} */ ...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), ms);
  };
}
