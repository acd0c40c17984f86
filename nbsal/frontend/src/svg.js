// @ts-check
// SVG: elements from names, properties and children. Text goes in as text alone, as in `dom.js`.

import { shown } from "./dom.js";

const SPACE = "http://www.w3.org/2000/svg";

/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} properties
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function s(tag, properties, ...children) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, String(value));
  }
  made.append(...children.map((child) => (typeof child === "string" ? shown(child) : child)));
  return made;
}
