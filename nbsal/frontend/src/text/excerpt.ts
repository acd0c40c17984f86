// An excerpt of a text with its words shaded, without selection.

import { h } from "../page/dom";
import { applyShade, type ColourScale, LINEAR, shade } from "./colour";

/** Text, share of the strongest word, whether it is highlighted. */
type Piece = [string, number, boolean];
export type Pieces = Piece[];

export const excerpt = (pieces: Pieces, scale = LINEAR) =>
  h("span", { class: "nbsal-excerpt", dir: "auto" }, ...pieces.map((piece) => drawPiece(piece, scale)));

function drawPiece([text, share, highlighted]: Piece, scale: ColourScale) {
  const shaded = shade(share, 1, scale);
  if (!shaded.strength && !highlighted) return text;
  const span = h("span", { class: highlighted ? "nbsal-piece nbsal-highlighted" : "nbsal-piece" }, text);
  applyShade(span, shaded);
  return span;
}
