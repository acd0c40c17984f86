// Explanations of texts by a model that runs in the page: from texts to tokens, a decision and scores.

import { decode, LMHead, type Place, signedScores, typesOf } from "./decoding";
import type { Manifest, Tables } from "./manifest";
import { Memory } from "./memory";
import { Network, type Trace } from "./network";
import { Weights } from "./weights";
import { type Piece, UnreadableText, WordPiece } from "./wordpiece";
import { beginsWord } from "./words";

export const METHODS = ["gradcam", "gradxact", "decoded-gradcam", "decoded-gradxact"] as const;
export type MethodName = (typeof METHODS)[number];

/** A class by its name or number, a contrast of two, or null for the prediction. */
export type ClassTarget = string | number | null | { contrast: (string | number)[] };

/** One explanation of a text; the layer null stands for all of them. */
export interface Request {
  method: MethodName;
  layer: number | null;
  target: ClassTarget;
  tau: number | null;
}

export interface Scores {
  /** What was explained, as Python calls it. */
  target: string;
  /** Of the logits in it. */
  weights: number[];
  /** For each layer the score of each token. */
  rows: Float32Array[];
  /** Numbers that order tokens of equal score. */
  ties: Float32Array[];
}

export interface Explained {
  pieces: Piece[];
  /** For each token whether it begins a word. */
  begins: boolean[];
  /** Tokens at the end that were not read. */
  dropped: number;
  probabilities: number[];
  results: Scores[];
}

/** The pass of one text, and what was computed from it. */
interface Run {
  key: string;
  pieces: Piece[];
  begins: boolean[];
  dropped: number;
  trace: Trace;
  used: number;
  /** For each target and layer the signed score of each position. */
  signed: Map<string, Float64Array[]>;
  /** For each layer the logarithm of the softmax denominator at each position, NaN where it was not computed. */
  normalisers: Map<number, Float64Array>;
}

export class Engine {
  private readonly memory = new Memory();
  private readonly network: Network;
  private readonly head: LMHead | null;
  private readonly tokenizer: WordPiece;
  private readonly ready: number;
  private run: Run | null = null;

  constructor(
    private readonly manifest: Manifest,
    bytes: ArrayBuffer,
    tables: Tables,
  ) {
    const weights = new Weights(this.memory, bytes, manifest);
    this.network = new Network(this.memory, manifest.sizes, weights);
    this.head = weights.has("decoder.weight") ? new LMHead(this.memory, weights, this.network.embeddings) : null;
    this.tokenizer = new WordPiece(tables);
    this.ready = this.memory.used;
  }

  /** Explain a text, or a pair of texts, in one or more ways; the same text again is not run again. */
  explain(parts: string[], requests: Request[]): Explained {
    const run = this.runOf(parts);
    const { pieces, begins, dropped, trace } = run;
    const probabilities = softmaxOf(trace.logits);
    const results = requests.map((request) => this.scores(run, request));
    return { pieces, begins, dropped, probabilities, results };
  }

  /** The probability of each class without some tokens; the others keep their places. */
  without(parts: string[], hidden: number[]): number[] {
    const { pieces, used } = this.runOf(parts);
    const places = [...pieces.keys()].filter((place) => !hidden.includes(place));
    const left = places.map((place) => pieces[place]);
    const [ids, types] = [left.map(({ id }) => id), left.map(({ type }) => type)];
    const { logits } = this.network.forward(ids, types, places);
    this.memory.release(used);
    return softmaxOf(logits);
  }

  private runOf(parts: string[]): Run {
    const key = JSON.stringify(parts);
    if (this.run?.key === key) return this.run;
    this.run = null; // should reading the text fail
    this.memory.release(this.ready);
    const { pieces, dropped } = this.tokenizer.encode(parts, this.manifest.sizes.longest);
    const [ids, types] = [pieces.map(({ id }) => id), pieces.map(({ type }) => type)];
    const trace = this.network.forward(ids, types, [...pieces.keys()]);
    const begins = beginsWord(pieces, parts);
    const maps = { signed: new Map(), normalisers: new Map() };
    this.run = { key, pieces, begins, dropped, trace, used: this.memory.used, ...maps };
    return this.run;
  }

  private scores(run: Run, { method, layer, target, tau }: Request): Scores {
    const { depth } = this.manifest.sizes;
    const layers = layer === null ? Array.from({ length: depth + 1 }, (_, i) => i) : [layer];
    const { name, weights } = this.targetOf(target, run.trace.logits);
    const signed = this.signed(run, weights);
    const plain = layers.map((at) => (method.endsWith("gradcam") ? signed[at].map((s) => Math.max(0, s)) : signed[at]));
    const rows = method.startsWith("decoded") ? this.decoded(run, layers, plain, tau) : plain;
    const ties = layers.map((at) => Float32Array.from(signed[at]));
    return { target: name, weights, rows: rows.map((row) => Float32Array.from(row)), ties };
  }

  private signed(run: Run, weights: number[]): Float64Array[] {
    const { memory, network } = this;
    const key = weights.join();
    const cached = run.signed.get(key);
    if (cached) return cached;
    const gradients = network.backward(run.trace, weights);
    const signed = gradients.map((gradient, layer) =>
      signedScores(memory.numbers(run.trace.hidden[layer]), memory.numbers(gradient), network.sizes.width),
    );
    memory.release(run.used);
    run.signed.set(key, signed);
    return signed;
  }

  /** The scores of layers decoded; all of their positions pass through the LM head together. */
  private decoded(run: Run, layers: number[], scores: Float64Array[], tau: number | null): Float64Array[] {
    const [head, memory] = [this.head, this.memory];
    if (!head) throw new UnreadableText("This copy of the model has no LM head to decode with.");
    const ids = run.pieces.map(({ id }) => id);
    const { types } = typesOf(ids);
    const cached = layers.map((layer) => run.normalisers.get(layer) ?? new Float64Array(ids.length).fill(Number.NaN));
    for (const [i, layer] of layers.entries()) run.normalisers.set(layer, cached[i]);
    const missing = layers.flatMap((layer, i) =>
      scored(scores[i]).flatMap((row): Place[] => (Number.isNaN(cached[i][row]) ? [[layer, row]] : [])),
    );
    const computed = missing.length ? head.logNormalisers(head.features(run.trace.hidden, missing)) : [];
    for (const [k, [layer, row]] of missing.entries()) (run.normalisers.get(layer) as Float64Array)[row] = computed[k];
    const results = layers.map((layer, i) => {
      const rows = scored(scores[i]);
      const places = rows.map((row): Place => [layer, row]);
      const logits = head.logits(head.features(run.trace.hidden, places), types);
      return decode({ ids, scores: scores[i], rows, logits, normalisers: rows.map((row) => cached[i][row]), tau });
    });
    memory.release(run.used);
    return results;
  }

  /** The name of a target, and the weights of the logits in it. */
  private targetOf(target: ClassTarget, logits: Float64Array): { name: string; weights: number[] } {
    const { labels } = this.manifest;
    const placeOf = (name: string | number) => {
      const place = typeof name === "number" ? name : labels.indexOf(name);
      if (!(place in labels))
        throw new UnreadableText(`There is no class ${name}. Choose one of: ${labels.join(", ")}.`);
      return place;
    };
    const weights = labels.map(() => 0);
    if (target !== null && typeof target === "object") {
      const [first, second] = target.contrast.map(placeOf);
      weights[first] += 1;
      weights[second] -= 1;
      return { name: `${labels[first]} - ${labels[second]}`, weights };
    }
    const place = target === null ? logits.indexOf(Math.max(...logits)) : placeOf(target);
    weights[place] = 1;
    return { name: labels[place], weights };
  }
}

/** Positions whose score is not 0; others need no decoding. */
const scored = (scores: Float64Array) => [...scores.keys()].filter((row) => scores[row] !== 0);

function softmaxOf(logits: Float64Array): number[] {
  const top = Math.max(...logits);
  const shares = [...logits].map((logit) => Math.exp(logit - top));
  const sum = shares.reduce((total, share) => total + share, 0);
  return shares.map((share) => share / sum);
}
