// What is said of the layers of a model. The same as in Python.

import type { Token } from "../page/decode";
import type { LayerWords, Level, Phrase } from "../page/traits";
import { largestOf, marksOf, namedMark, totals } from "../text/marks";
import { formatPercent, nameInSentence, plural } from "./format";

type Row = ArrayLike<number>;

export function layerWords(tokens: Token[], parts: string[], rows: Row[]): LayerWords {
  const totalsOf = (level: Level) => {
    const marks = marksOf(tokens, level);
    return { names: marks.map((mark) => namedMark(mark, parts).text), rows: rows.map((row) => totals(marks, row)) };
  };
  const words = totalsOf("word");
  const level = (noun: Level) => ({
    of: ` of that layer\u2019s strongest ${noun}`,
    remarks: rows.map((row, layer) => blankWords(tokens, row, layer === rows.length - 1)),
    cells: totalsOf(noun).rows.map((row) => row.map((score) => cellWords(score, largestOf(row)))),
  });
  return {
    finding: layersFinding(words.rows, words.names),
    rows: rows.map((_, layer) => (layer ? `layer ${layer}` : "embeddings")),
    scales: { own: "each layer on its own scale", shared: "one scale for all layers" },
    levels: { word: level("word"), token: level("token") },
  };
}

/** The word that is the strongest in most rows; words are compared by their text. */
export function layersFinding(rows: Row[], texts: string[]): Phrase[] {
  const places = new Map<string, { word: number; rows: number[] }>();
  for (const [number, row] of rows.entries()) {
    const largest = largestOf(row);
    if (!largest) continue;
    const word = Array.from(row).findIndex((score) => Math.abs(score) === largest);
    const name = texts[word].toLowerCase();
    if (!places.has(name)) places.set(name, { word, rows: [] });
    places.get(name)?.rows.push(number);
  }
  const [most] = [...places.values()].sort((a, b) => b.rows.length - a.rows.length);
  if (!most) return [["text", "Every word scores 0 in every layer"]];
  if (most.rows.length === 1 && rows.length > 1) return [["text", "Each layer has a strongest word of its own"]];
  const where = placesInSentence(most.rows, rows.length - 1);
  return [
    ["word", nameInSentence(texts[most.word])],
    ["text", ` is the strongest word in ${where}`],
  ];
}

/** "the embeddings and 3 of 6 layers" */
function placesInSentence(places: number[], depth: number) {
  const layers = places.filter((row) => row > 0).length;
  const all = depth === 2 ? "both" : `all ${depth}`;
  const ofLayers = layers === depth && depth > 1 ? `${all} layers` : layers && `${layers} of ${plural(depth, "layer")}`;
  return [places.includes(0) && "the embeddings", ofLayers].filter(Boolean).join(" and ");
}

/** Why no word of a row has a score, or "". */
export function blankWords(tokens: Pick<Token, "special" | "name">[], row: Row, isLast: boolean) {
  const scored = tokens.filter((_, i) => row[i]);
  if (scored.some(({ special }) => !special)) return "";
  if (!scored.length) return "every token scores 0";
  const why = isLast && scored.length === 1 ? ", which the model classifies" : "";
  const names = scored.slice(0, 3).map(({ name }) => name);
  return `all of the score is on ${names.join(", ")}${why}`;
}

/** "against, 55 %" */
export const cellWords = (score: number, largest: number) =>
  `${score < 0 ? "against, " : ""}${formatPercent(Math.abs(score) / (largest || 1), 0)}`;
