// HTML elements from tags, attributes and children, and helpers for events and timers. No markup is ever parsed.

const FOCUSABLE = ["button", "input", "select", "textarea"];

/** An attribute's value: true is an empty attribute; false, null and undefined are none. */
export type Attribute = string | number | boolean | null | undefined;

type Listeners = { [E in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[E]) => unknown };

/** Attributes and listeners of an element; listeners are removed when `signal` aborts. */
export interface Properties extends Listeners {
  signal?: AbortSignal;
  /** Names that begin with "--" are properties of its style. */
  [name: `aria-${string}` | `data-${string}` | `--${string}`]: Attribute;
  accept?: string;
  class?: string;
  colspan?: number;
  dir?: string;
  disabled?: boolean;
  download?: string;
  hidden?: boolean;
  href?: string;
  id?: string | null;
  label?: string;
  max?: number;
  min?: number;
  open?: boolean;
  placeholder?: string;
  role?: string;
  rows?: number;
  scope?: string;
  spellcheck?: string;
  step?: number;
  tabindex?: number;
  title?: string;
  type?: string;
  value?: number | string;
}

/** Create an element. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  { signal, ...properties }: Properties = {},
  ...children: (Node | string | null | undefined | false)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (tag === "button") element.setAttribute("type", tag); // else it would submit a form around it
  for (const [name, value] of Object.entries(properties as Record<string, Attribute | EventListener>)) {
    if (typeof value === "function") element.addEventListener(name, value, { signal });
    else if (name.startsWith("--")) element.style.setProperty(name, String(value));
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  // JupyterLab handles keys itself unless the very element that has the focus carries this attribute.
  if (FOCUSABLE.includes(tag) || "tabindex" in properties) element.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const child of children) if (child) element.append(typeof child === "string" ? sanitize(child) : child);
  return element;
}

/** A section under a heading, with a note beside the heading. */
export function panel(look: string, ...content: (Node | string)[]) {
  const [heading, note] = [h("h3"), h("span")];
  const header = h("header", { class: "nbsal-small" }, heading, note);
  return { node: h("section", { class: `nbsal-panel ${look}` }, header, ...content), heading, note };
}

/** A button that looks like a link and needs Python. */
export const link = (signal: AbortSignal, words: string, click: () => unknown) =>
  h("button", { class: "nbsal-link nbsal-needs-python", signal, click }, words);

/** Make another element of a list the one that keys act on. */
export function setActive(list: HTMLElement, element: Element | null | undefined) {
  list.querySelector(".nbsal-active")?.classList.remove("nbsal-active");
  element?.classList.add("nbsal-active");
  if (element) list.setAttribute("aria-activedescendant", element.id);
}

/** A share as a length in a style. */
export const percent = (share: number) => `${100 * share}%`;

/** Call when the view closes. */
export const onAbort = (signal: AbortSignal, call: () => void) => signal.addEventListener("abort", call);

/** A prefix for the ids of one view's elements. */
export const uniqueId = () => Math.random().toString(36).slice(2, 8);

/** The element of a selector that an event happened in. */
export const closest = ({ target }: Event, selector: string) =>
  target instanceof Element ? target.closest<HTMLElement>(selector) : null;

export const stopPropagation = (event: Event) => event.stopPropagation();

/** Handle an event alone: neither the browser nor the notebook sees it. */
export function consume(event: Event) {
  event.preventDefault();
  event.stopPropagation();
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to replace
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

/** Replace control characters and those that change the reading direction, as Python does for static HTML. */
export const sanitize = (text: string) =>
  text.replace(CONTROL, (c) => (c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : "\ufffd"));

/** Call at most every `ms`, the last time with the latest arguments. */
export function throttle<Args extends unknown[]>(call: (...args: Args) => void, ms: number, signal: AbortSignal) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let latest: Args | null = null;
  const flush = () => {
    timer = undefined;
    if (!latest) return;
    const args = latest;
    latest = null;
    call(...args);
    timer = setTimeout(flush, ms);
  };
  onAbort(signal, () => clearTimeout(timer));
  return (...args: Args) => {
    latest = args;
    if (timer === undefined) flush();
  };
}

/** Call once no further call has come for `ms`. */
export function debounce<Args extends unknown[]>(call: (...args: Args) => void, ms: number, signal: AbortSignal) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  onAbort(signal, () => clearTimeout(timer));
  return (...args: Args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), ms);
  };
}
