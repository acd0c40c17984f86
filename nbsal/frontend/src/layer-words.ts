// What the layers of a model say about a text, in words. The same as in Python.

import { formatPercent } from "./format";
import { largestOf } from "./marks";

/** The word that is the strongest in most layers. */
interface Strongest {
  /** Its index, or null if no word is the strongest in more than one layer. */
  word: number | null;
  /** The number of layers in which it is the strongest. */
  layers: number;
}

export const layerName = (layer: number) => (layer === 0 ? "embeddings" : `layer ${layer}`);

/** The strongest word over all layers; words are compared by their text. */
export function strongestWord(rows: ArrayLike<number>[], texts: string[]): Strongest {
  const counts = new Map<string, Strongest>();
  for (const row of rows) {
    const largest = largestOf(row);
    if (!largest) continue;
    const word = Array.from(row).findIndex((score) => Math.abs(score) === largest);
    const name = texts[word].toLowerCase();
    const entry = counts.get(name) ?? { word, layers: 0 };
    counts.set(name, { ...entry, layers: entry.layers + 1 });
  }
  const most = [...counts.values()].reduce((best, entry) => (entry.layers > best.layers ? entry : best), {
    word: null,
    layers: 0,
  } as Strongest);
  return most.layers > 1 || rows.length === 1 ? most : { word: null, layers: most.layers };
}

/** The heading of the layers: a word, or "", and what is said about it. */
export function layersFinding(rows: ArrayLike<number>[], texts: string[], noun: string): [string, string] {
  const { word, layers } = strongestWord(rows, texts);
  if (!layers) return ["", `No ${noun} has any weight in any layer`];
  if (word === null) return ["", `Each layer has a strongest ${noun} of its own`];
  const all = layers === 2 ? "both" : `all ${layers}`;
  const where = `${layers === rows.length ? all : `${layers} of ${rows.length}`} layers`;
  return [nameInSentence(texts[word]), ` is the strongest ${noun} in ${where}`];
}

/** A word as a sentence names it: punctuation has quotation marks. */
export const nameInSentence = (text: string) => (/[\p{L}\p{N}]/u.test(text) ? text : `“${text}”`);

/** "layer 5 · 55 % of that layer's strongest word" */
export function cellWords(layer: number, score: number, largest: number, noun: string) {
  const share = formatPercent(Math.abs(score) / (largest || 1), 0);
  return `${layerName(layer)} · ${score < 0 ? "against, " : ""}${share} of that layer’s strongest ${noun}`;
}
