// From the inputs of a view to a question for the model, and from its answer to the traits that show it.

import { isBlank } from "../blank";
import { tokensOf } from "../decode";
import type { Statement, Text } from "../traits";
import { findings } from "./comparison";
import { decision, type Named, notes, predicted, wiredScores, wiredTokens } from "./decision";
import type { ClassTarget, Explained, MethodName, Request, Scores } from "./engine";
import { scoredWords, statement } from "./sentence";

export type ViewName = "highlight" | "layers" | "compare";
type Inputs = Record<string, unknown>;

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
export function traitsOf(view: ViewName, parts: string[], requests: Request[], explained: Explained, named: Named) {
  const wired = wiredTokens(explained, parts);
  const [first, second] = explained.results;
  const result = decision(explained, first, requests[0], named);
  const said = first.rows.map((row) => unchecked(explained, first, row, parts, named));
  const shown = { _tokens: wired, _said: said, _checking: {}, _preview: false };
  if (view !== "compare") return { ...shown, _scores: wiredScores(first.rows), _result: result };
  const other = decision(explained, second, requests[1], named);
  const { prediction, confidence } = predicted(explained, named.labels);
  const [a, b] = [first, second].map(({ target, rows, ties }) => ({
    prediction,
    confidence,
    target,
    row: rows[0],
    ties: ties[0],
  }));
  const both = [first, second].map((_, i) => notes(explained, requests[i], { ...named, name: "" }));
  const methods = both.map(([method], i) => `${"AB"[i]}: ${method.replace(" \u00b7 ", "")}`);
  return {
    ...shown,
    _scores: wiredScores([first.rows[0], second.rows[0]]),
    _result: {
      ...result,
      notes: [named.name, ...methods, ...both[0].slice(1)],
      settings: `A: ${result.settings}; B: ${other.settings}`,
      same_model: true,
      signed: result.signed || other.signed,
    },
    _other: other,
    _findings: findings(tokensOf(wired), parts, [a, b]),
  };
}

function unchecked(
  explained: Explained,
  { target }: Scores,
  row: Float32Array,
  parts: string[],
  named: Named,
): Statement {
  const { prediction, confidence } = predicted(explained, named.labels);
  const place = named.labels.indexOf(target);
  const targetProbability = place < 0 ? null : explained.probabilities[place];
  const scored = scoredWords(tokensOf(wiredTokens(explained, parts)), row, parts);
  return statement({
    prediction,
    target,
    probability: confidence,
    targetProbability,
    ...scored,
    parts: parts.length,
  });
}
