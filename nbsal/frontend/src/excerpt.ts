// An excerpt of a text with its tokens shaded, without selection.

import { shade } from "./colour";
import { h } from "./dom";

/** Text, share of the largest score, whether it is highlighted. */
type Piece = [string, number, boolean];
export type Pieces = Piece[];

export const excerpt = (pieces: Pieces) => h("span", { class: "nbsal-excerpt", dir: "auto" }, ...pieces.map(drawPiece));

function drawPiece([text, share, highlighted]: Piece) {
  const { css, against } = shade(share, 1);
  if (!css && !highlighted) return text;
  const names = ["nbsal-piece", against && "nbsal-against", highlighted && "nbsal-highlighted"];
  const span = h("span", { class: names.filter(Boolean).join(" ") }, text);
  span.style.backgroundColor = css;
  return span;
}
