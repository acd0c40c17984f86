// What the layers of a model say about a text, in words. The same as in Python.

import { formatPercent, nameInSentence, plural } from "../page/format";
import { largestOf } from "./marks";

/** The word that is the strongest in most rows: row 0 is the embeddings, row n layer n. */
interface Strongest {
  /** Its index, or null if no word is the strongest in more than one row. */
  word: number | null;
  /** The rows in which it is the strongest. */
  rows: number[];
}

export const layerName = (layer: number) => (layer === 0 ? "embeddings" : `layer ${layer}`);

/** The strongest word over all rows; words are compared by their text. */
export function strongestWord(rows: ArrayLike<number>[], texts: string[]): Strongest {
  const counts = new Map<string, Strongest>();
  for (const [number, row] of rows.entries()) {
    const largest = largestOf(row);
    if (!largest) continue;
    const word = Array.from(row).findIndex((score) => Math.abs(score) === largest);
    const name = texts[word].toLowerCase();
    if (!counts.has(name)) counts.set(name, { word, rows: [] });
    counts.get(name)?.rows.push(number);
  }
  const none: Strongest = { word: null, rows: [] };
  const most = [...counts.values()].reduce(
    (best, entry) => (entry.rows.length > best.rows.length ? entry : best),
    none,
  );
  return most.rows.length > 1 || rows.length === 1 ? most : { ...most, word: null };
}

/** The heading of the layers: a word, or "", and what is said about it. */
export function layersFinding(rows: ArrayLike<number>[], texts: string[], noun: string): [string, string] {
  const { word, rows: places } = strongestWord(rows, texts);
  if (!places.length) return ["", `Every ${noun} scores 0 in every layer`];
  if (word === null) return ["", `Each layer has a strongest ${noun} of its own`];
  return [nameInSentence(texts[word]), ` is the strongest ${noun} in ${placesInSentence(places, rows.length - 1)}`];
}

/** "the embeddings and 3 of 6 layers" */
function placesInSentence(places: number[], depth: number) {
  const layers = places.filter((row) => row > 0).length;
  const all = depth === 2 ? "both" : `all ${depth}`;
  const ofLayers = layers === depth && depth > 1 ? `${all} layers` : layers && `${layers} of ${plural(depth, "layer")}`;
  return [places.includes(0) && "the embeddings", ofLayers].filter(Boolean).join(" and ");
}

/** Why no word of a layer has a score; `special` are the special tokens that have one. */
export function blankWords(special: string[], isLast: boolean) {
  if (!special.length) return "every token scores 0";
  const why = isLast && special.length === 1 ? ", which the model classifies" : "";
  return `all of the score is on ${special.slice(0, 3).join(", ")}${why}`;
}

/** "layer 5 · 55 % of that layer's strongest word" */
export function cellWords(layer: number, score: number, largest: number, noun: string) {
  const share = formatPercent(Math.abs(score) / (largest || 1), 0);
  return `${layerName(layer)} · ${score < 0 ? "against, " : ""}${share} of that layer’s strongest ${noun}`;
}
