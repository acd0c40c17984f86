// SVG elements from tags, attributes and children.

import { type Attribute, sanitize } from "./dom";

const NAMESPACE = "http://www.w3.org/2000/svg";

/** Create an SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, Attribute>,
  ...children: (Node | string)[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  element.append(...children.map((child) => (typeof child === "string" ? sanitize(child) : child)));
  return element;
}
