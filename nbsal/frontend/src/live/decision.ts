// An explanation in the traits that Python would set: tokens and scores packed, and what the model decided.

import type { Token, WiredTokens } from "../page/decode";
import type { Decision } from "../page/traits";
import type { Explained, Request, Scores } from "./engine";
import { formatPercent, plural } from "./format";
import { legendOf } from "./legends";
import type { Piece } from "./wordpiece";

const INTEGER = 4; // bytes
const FLAGS = 2;
const FLOAT = 4;
const LISTED = 12; // classes with a probability

/** What a decision is named with. */
export interface Named {
  /** Of the copy of the model. */
  name: string;
  labels: string[];
  /** How methods read on screen. */
  methods: Record<string, string>;
  /** Words that are not named where others are there. */
  functionWords: ReadonlySet<string>;
}

export function wiredTokens({ pieces, begins, dropped }: Explained, parts: string[]): WiredTokens {
  const [starts, ends] = [INTEGER, INTEGER].map((size) => new DataView(new ArrayBuffer(size * pieces.length)));
  const flags = new DataView(new ArrayBuffer(FLAGS * pieces.length));
  const names: Record<string, string> = {};
  let [part, furthest] = [0, 0];
  for (const [i, piece] of pieces.entries()) {
    if (!piece.special && piece.part > part) [part, furthest] = [piece.part, 0];
    const [start, end] = piece.special ? [furthest, furthest] : [piece.start, piece.end];
    furthest = Math.max(furthest, end);
    starts.setInt32(INTEGER * i, start, true);
    ends.setInt32(INTEGER * i, end, true);
    flags.setUint16(FLAGS * i, Number(begins[i]) | (Number(piece.special) << 1) | (part << 2), true);
    if (piece.special || !isSpelled(piece, parts[part].slice(start, end))) names[i] = piece.name;
  }
  return { parts, count: pieces.length, starts, ends, flags, names, cut: dropped > 0 };
}

/** Whether the text that a token covers tells its name. */
const isSpelled = ({ name }: Piece, text: string) =>
  name.replace(/^##/, "").toLowerCase() === text.trimStart().toLowerCase();

/** Rows of scores, one after the other. */
export function wiredScores(rows: Float32Array[]): DataView {
  const size = rows.reduce((sum, row) => sum + row.length, 0);
  const view = new DataView(new ArrayBuffer(FLOAT * size));
  for (const [i, score] of rows.flatMap((row) => [...row]).entries()) view.setFloat32(FLOAT * i, score, true);
  return view;
}

/** The likeliest class, and its probability. */
export function predicted(probabilities: number[], labels: string[]) {
  const place = probabilities.indexOf(Math.max(...probabilities));
  return { prediction: labels[place], confidence: probabilities[place] };
}

export function decision(
  explained: Explained,
  { target, rows }: Scores,
  request: Request,
  { named, tokens, parts }: { named: Named; tokens: Token[]; parts: string[] },
): Decision {
  const { method, layer } = request;
  const { prediction, confidence } = predicted(explained.probabilities, named.labels);
  const shares = named.labels.map((label, i): [string, number] => [label, explained.probabilities[i]]);
  shares.sort(([, first], [, second]) => second - first);
  const contrary = target === prediction ? "" : `, explained: ${target}`;
  const listed = shares.filter(([label], i) => i < LISTED || label === target);
  return {
    caption: `${prediction} (${(100 * confidence).toFixed(1)}%)${contrary} | ${method}`,
    prediction,
    target,
    names: {},
    method,
    layer: layer ?? "every",
    probabilities: listed,
    percentages: listed.map(([, share]) => formatPercent(share)),
    confidence,
    answer: null,
    signed: method.endsWith("gradxact") || rows.some((row) => row.some((score) => score < 0)),
    unit: `score for ${target}`,
    legends: rows.map((row) => legendOf(tokens, row, parts)),
    notes: notes(explained, request, named),
    settings: settings(request),
  };
}

/** What a reader must know to judge the scores: which model, which method, what was left out. */
export function notes({ dropped }: Explained, { method, layer }: Request, { name, methods }: Named): string[] {
  const place = layer === null ? "" : layer ? `, layer ${layer}` : ", embeddings";
  const cut = `The text is longer than the model reads: the last ${plural(dropped, "token")} were not read.`;
  return [`${name} \u00b7 ${methods[method]}${place}`, ...(dropped ? [cut] : [])];
}

function settings({ method, layer, tau }: Request) {
  const decoding = `, form=per_position, tau=${tau ?? "None"}, renormalise=False, coarse=False`;
  return `${method}, layer=${layer ?? "every"}${method.startsWith("decoded") ? decoding : ""}, float32`;
}
