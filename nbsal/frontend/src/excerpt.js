// @ts-check
// Excerpt: a stretch of a text with its tokens shaded, to be read but not selected.

import { shade } from "./colour.js";
import { h } from "./dom.js";

/** @typedef {[string, number, boolean][]} Pieces text, share of the largest score, whether it is one looked for */

/**
 * @param {Pieces} pieces
 * @param {Record<string, any>} [properties]
 */
export const excerpt = (pieces, properties = {}) =>
  h("span", { class: "nbsal-excerpt", dir: "auto", ...properties }, ...pieces.map(piece));

/** @param {Pieces[number]} given */
function piece([text, share, marked]) {
  const { css, against } = shade(share, 1);
  if (!css && !marked) return text;
  const span = h(
    "span",
    { class: `nbsal-piece${against ? " nbsal-against" : ""}${marked ? " nbsal-sought" : ""}` },
    text,
  );
  span.style.backgroundColor = css;
  return span;
}
