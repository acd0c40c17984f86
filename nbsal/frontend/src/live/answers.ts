// From the inputs of a view to a question for the model, and from its answer to the traits that show it.

import { type Token, tokensOf } from "../page/decode";
import type { Statement, Text } from "../page/traits";
import { isBlank } from "../text/blank";
import { type Compared, findings } from "./comparison";
import { decision, type Named, notes, predicted, wiredScores, wiredTokens } from "./decision";
import type { ClassTarget, Explained, MethodName, Request, Scores } from "./engine";
import { scoredWords, statement } from "./sentence";

export type ViewName = "highlight" | "layers" | "compare";
type Inputs = Record<string, unknown>;

/** A text with what was asked about it, and the answer. */
interface Answered {
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
    _statements: first.rows.map((row) => unchecked(answered, tokens, first, row)),
    _checking: {},
    _preview: false,
    _result: decision(explained, first, requests[0], { named, tokens, parts }),
  };
  return view === "compare" ? { ...traits, ...comparedTraits(answered, tokens) } : traits;
}

/** The traits of Compare that differ from those of one explanation. */
function comparedTraits({ parts, requests, explained, named }: Answered, tokens: Token[]) {
  const both = explained.results.map((scores, i) => decision(explained, scores, requests[i], { named, tokens, parts }));
  const compared = explained.results.map(({ target, rows, ties }): Compared => {
    return { ...predicted(explained, named.labels), target, row: rows[0], ties: ties[0] };
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
    _findings: findings(tokens, parts, compared),
  };
}

/** What is said of a row of scores. */
function unchecked(
  { parts, explained, named }: Answered,
  tokens: Token[],
  { target }: Scores,
  row: Float32Array,
): Statement {
  const { prediction, confidence } = predicted(explained, named.labels);
  const targetProbability = explained.probabilities[named.labels.indexOf(target)] ?? null; // a contrast has none
  const { functionWords } = named;
  const scored = { ...scoredWords(tokens, row, parts), parts: parts.length, functionWords };
  return statement({ prediction, target, probability: confidence, targetProbability, ...scored });
}
