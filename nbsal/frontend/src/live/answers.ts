// From the inputs of a view to a question for the model, and from its answer to the traits that show it.

import { type Token, tokensOf } from "../page/decode";
import type { Statement, Text } from "../page/traits";
import { isBlank } from "../text/blank";
import { scoredWords } from "./candidates";
import { Check, type Outcome, planned } from "./check";
import { type Compared, findings } from "./comparison";
import { decision, type Named, notes, predicted, wiredScores, wiredTokens } from "./decision";
import type { ClassTarget, Explained, MethodName, Request } from "./engine";
import { layerWords } from "./layer-words";
import { shuffler } from "./random";
import { statement } from "./sentence";

export type ViewName = "highlight" | "layers" | "compare";
type Inputs = Record<string, unknown>;

/** A text with what was asked about it, and the answer. */
export interface Answered {
  parts: string[];
  requests: Request[];
  explained: Explained;
  named: Named;
}

export const partsOf = (text: Text): string[] => (typeof text === "string" ? [text] : text);

/** Why a text cannot be explained, or "". */
export const refusal = (text: Text) => (isBlank(text) ? "The text is empty. Type a sentence." : "");

/** The explanations that a view needs for its inputs. */
export function requestsOf(view: ViewName, inputs: Inputs, defaultLayer: number): Request[] {
  const of = (prefix = ""): Request => ({
    method: inputs[`${prefix}method`] as MethodName,
    layer: view === "layers" ? null : ((inputs[`${prefix}layer`] as number | null) ?? defaultLayer),
    target: inputs[`${prefix}target`] as ClassTarget,
    tau: inputs[`${prefix}tau`] as number | null,
  });
  return view === "compare" ? [of(), of("other_")] : [of()];
}

/** The traits that show an answer. */
export function traitsOf(view: ViewName, answered: Answered) {
  const { parts, requests, explained, named } = answered;
  const wired = wiredTokens(explained, parts);
  const tokens = tokensOf(wired);
  const [first] = explained.results;
  const traits = {
    _tokens: wired,
    _scores: wiredScores(first.rows),
    _statements: first.rows.map((row) => statement(findingOf(answered, tokens, row).finding)),
    _preview: false,
    _result: decision(explained, first, requests[0], { named, tokens, parts }),
  };
  if (view === "layers") return { ...traits, _layer_words: layerWords(tokens, parts, first.rows) };
  return view === "compare" ? { ...traits, ...comparedTraits(answered, tokens) } : traits;
}

/** The traits of Compare that differ from those of one explanation. */
function comparedTraits({ parts, requests, explained, named }: Answered, tokens: Token[]) {
  const both = explained.results.map((scores, i) => decision(explained, scores, requests[i], { named, tokens, parts }));
  const compared = explained.results.map(({ target, rows, ties }): Compared => {
    return { ...predicted(explained.probabilities, named.labels), target, row: rows[0], ties: ties[0] };
  });
  const nameless = { ...named, name: "" };
  const [, ...warnings] = notes(explained, requests[0], named);
  const methods = requests.map((request, i) => `${"AB"[i]}: ${notes(explained, request, nameless)[0].slice(3)}`);
  return {
    _scores: wiredScores(explained.results.map(({ rows }) => rows[0])),
    _result: {
      ...both[0],
      notes: [named.name, ...methods, ...warnings],
      settings: both.map(({ settings }, i) => `${"AB"[i]}: ${settings}`).join("; "),
      same_model: true,
      signed: both.some(({ signed }) => signed),
    },
    _other: both[1],
    _findings: findings(tokens, parts, compared, named.functionWords),
  };
}

/** The facts of a row of scores, and the tokens of each word. */
function findingOf({ parts, explained, named }: Answered, tokens: Token[], row: Float32Array) {
  const [{ target }] = explained.results;
  const { prediction, confidence } = predicted(explained.probabilities, named.labels);
  const targetProbability = explained.probabilities[named.labels.indexOf(target)] ?? null; // a contrast has none
  const { units, ...scored } = scoredWords(tokens, row, parts);
  const decided = { prediction, target, probability: confidence, targetProbability };
  return { finding: { ...decided, ...scored, parts: parts.length, functionWords: named.functionWords }, units };
}

/** The check of the sentence about a row of scores: the tokens to hide, set by set, and what is then said. */
export function checkOf(answered: Answered, number: number) {
  const { parts, explained, named } = answered;
  const { pieces, probabilities } = explained;
  const [{ rows, target, weights }] = explained.results;
  const row = rows[number];
  const { finding, units } = findingOf(answered, tokensOf(wiredTokens(explained, parts)), row);
  const probable = weights.every((weight) => weight >= 0);
  const outcome = (shares: number[]): Outcome => {
    if (probable) return { prediction: predicted(shares, named.labels).prediction, value: weighted(shares, weights) };
    return { prediction: "", value: weighted(shares.map(Math.log), weights) };
  };
  const decided = target === finding.prediction || target.startsWith(`${finding.prediction} - `);
  const raises = !decided && pieces.some(({ special }, i) => !special && row[i] < 0);
  const ids = (name: "id" | "type") => pieces.map((piece) => piece[name]);
  const plan = planned({ ...finding, raises, shuffle: shuffler(ids("id"), ids("type")) });
  return {
    sets: plan.sets.map((words) => words.flatMap((word) => units[word])),
    said: (without: number[][]): Statement =>
      statement(finding, new Check(plan, outcome(probabilities), without.map(outcome), probable, raises)),
  };
}

const weighted = (numbers: number[], weights: number[]) =>
  numbers.reduce((sum, number, i) => (weights[i] ? sum + weights[i] * number : sum), 0);
