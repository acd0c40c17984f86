// What is said of a result, in the words of Python: the decision, the words that are ranked first, and what hiding does.

import type { Phrase, Statement } from "../page/traits";
import { type Candidate, candidates, contentCandidates, proposed, sizeOf, type Word, whichText } from "./candidates";
import type { Check, Outcome } from "./check";
import { confidence, nameInSentence, plural } from "./format";

export const LEANING = 0.6; // probability below which a decision is doubtful
const MOST = 0.5; // share of the scores on special tokens above which the sentence is about the words alone
const SINGLED_OUT = 0.05; // share of all scores above which a single word counts
const NUMBERS = "no one two three four five six seven eight nine ten".split(" ");

/** The facts that a sentence is made of. */
export interface Finding {
  prediction: string;
  target: string;
  probability: number;
  /** Of the target, if it is a class. */
  targetProbability: number | null;
  words: Word[];
  parts: number;
  /** The share of the scores on special tokens. */
  special: number;
  functionWords: ReadonlySet<string>;
}

/** What is said of a result. Of what Python advises beyond it, a page can do nothing. */
export function statement(finding: Finding, check?: Check): Statement {
  const state = check ? (check.supported ? "supported" : "weak") : "unchecked";
  const badge = check?.plan.tried ? `${plural(check.plan.tried + check.random.length, "set")} hidden` : "not checked";
  const said = (...rest: (string | Phrase[])[]): Statement => {
    return {
      sentence: phrases(...lead(finding, check), ...rest),
      state,
      badge,
      evidence_line: "",
      effects: [],
      advice: "",
      alone: [],
    };
  };
  if (!finding.words.length) return { ...said(), badge: "" };
  if (!sizeOf(finding.words)) return said(" ", everyZero(finding));
  if (!check) return said(" ", ...scores(finding));
  return { ...said(" ", ...checked(finding, check)), ...measured(finding, check) };
}

/** A sentence that nothing has checked. */
export const unchecked = (sentence: Phrase[]): Statement => {
  return { sentence, state: "unchecked", badge: "not checked", evidence_line: "", effects: [], advice: "", alone: [] };
};

/** A sentence of plain words and lists of phrases. */
export const phrases = (...parts: (string | Phrase[])[]) =>
  parts.flatMap((part): Phrase[] => (typeof part !== "string" ? part : part ? [["text", part]] : []));

const plain = (sentence: Phrase[]) => sentence.map(([, text]) => text).join("");

export const className = (name: string): Phrase[] => [["class", name]];

function lead({ prediction, target, probability, targetProbability }: Finding, check?: Check) {
  if (target !== prediction) {
    const named = target.replaceAll(" - ", " \u2212 "); // of a contrast
    const difference =
      check && named !== target ? ` (difference of logits: ${valueWords(check.whole.value, check)})` : "";
    const share = targetProbability === null ? difference : ` (${confidence(targetProbability)})`;
    return [named === target ? "Why not " : "Why ", className(named), `${share}?`];
  }
  return [probability < LEANING ? "leaning " : "", className(prediction), `, ${confidence(probability)}.`];
}

function scores(finding: Finding) {
  const words = candidates(finding.words);
  if (Math.max(...words.map(({ score }) => Math.abs(score))) <= SINGLED_OUT * sizeOf(finding.words)) {
    return ["No single word stands out."];
  }
  const content = contentCandidates(finding.words, finding.functionWords);
  const [bestContent, againstContent] = [side(content, 1), side(content, -1)];
  const best = proposed(bestContent.length ? bestContent : side(words, 1));
  const against = best.length || againstContent.length ? againstContent : side(words, -1);
  const among = finding.special > MOST ? " among the words" : "";
  return [
    ...(best.length ? [`Ranked first${among}: `, names(best, finding)] : ["No word speaks for it"]),
    ...(against.length ? ["; against it: ", names(against, finding)] : []),
    finding.parts > 1 ? "; not checked." : " (not checked).",
  ];
}

const everyZero = ({ special }: Finding) =>
  special
    ? "Every word scores 0: all of the score is on special tokens. Try another layer, or occlusion."
    : "Every word scores 0: the output is saturated or does not depend on the words. Try occlusion.";

/** The words for the target (1) or against it (-1). */
const side = (words: Candidate[], sign: number) => words.filter(({ score }) => sign * score > 0);

function checked(finding: Finding, check: Check) {
  const { named, together, random, plan, probable } = check;
  if (!named.length) return ["No word speaks for it."];
  const words = namesOf(named, finding, check);
  const would = [words, ...outcomeWords(together, finding, check)];
  const largest = `(${largestRandom(check)})`;
  const others = random.length ? ` (random words: ${bound(check)})` : "";
  if (check.supported) return ["Without ", ...would, check.turns(together) ? "" : others, "."];
  if (check.moves(together)) {
    const asMuch = `, but ${draws(check, check.asMuch, "does", "do")} as much ${largest}`;
    return ["Without ", ...would, check.counts(together) ? asMuch : others, "."];
  }
  const changing = random.filter(check.counts).length;
  const more = changing ? `; ${draws(check, changing, "changes", "change")} more ${largest}` : "";
  if (probable && plan.tried > 1) {
    const none = `None of the ${plan.tried} sets of words that the scores propose turns it: without `;
    return [none, ...would, more, "."];
  }
  const them = named.length > 1 ? "them" : "it";
  const nothing = `, but without ${them} nothing changes (${valueWords(together.value, check)})`;
  return ["The scores name ", words, nothing, more, "."];
}

/** "it would be negative (positive 12 %)" or "it would still be positive, at 61 %" */
function outcomeWords(outcome: Outcome, { prediction, target }: Finding, check: Check) {
  const value = valueWords(outcome.value, check);
  if (!outcome.prediction) return [` it would be ${value}`];
  if (check.turns(outcome)) {
    const share = outcome.prediction === target ? value : `${target} ${value}`;
    return [" it would be ", className(outcome.prediction), ` (${share})`];
  }
  if (target !== prediction) return [`, ${target} would have ${value}`];
  return [" it would still be ", className(outcome.prediction), `, at ${value}`];
}

/** "one of two random words does" */
function draws({ random, plan }: Check, count: number, does: string, do_: string) {
  const unit = plan.drawn === 1 ? "word" : "set";
  if (random.length === 1) return `a random ${unit} ${does}`;
  return `${numberWord(count)} of ${numberWord(random.length)} random ${unit}s ${count === 1 ? does : do_}`;
}

/** The line that says how it was checked, and the value without each set of words. */
function measured(finding: Finding, check: Check): Pick<Statement, "evidence_line" | "effects"> {
  const { named, alone, together, random, plan } = check;
  if (!named.length) return { evidence_line: "", effects: [] };
  const count = `${numberWord(plan.drawn)} random word${plan.drawn === 1 ? "" : "s"}`;
  const several = random.length > 1;
  const change = [check.whole, together].map(({ value }) => valueWords(value, check));
  const beside = random.length
    ? `; ${count}${several ? `, ${numberWord(random.length)} draws` : ""}: ${bound(check)}`
    : "";
  const hidden: [string | Phrase[], Outcome][] = [[namesOf([0], finding, check), alone]];
  if (named.length > 1 || named[0]) hidden.push([namesOf(named, finding, check), together]);
  const largest = check.largestRandom;
  if (largest)
    hidden.push([count + (several ? ` (largest change in ${numberWord(random.length)} draws)` : ""), largest]);
  return {
    evidence_line: `${change[0].replace("\u202f%", "")} \u2192 ${change[1]}${beside}`,
    effects: hidden.map(([words, { value }]) => [
      `without ${plain(phrases(words))}`,
      valueWords(value, check),
      check.probable ? value : null,
    ]),
  };
}

const valueWords = (value: number, { probable }: Check) =>
  probable ? confidence(value) : String(Number(value.toPrecision(4))).replace("-", "\u2212");

/** The value without those random words that change it most. */
const largestRandom = (check: Check) => valueWords(check.largestRandom?.value ?? 0, check);

/** What the values of all random draws keep to. */
const bound = (check: Check) =>
  (check.random.length > 1 ? (check.raises ? "at most " : "at least ") : "") + largestRandom(check);

const numberWord = (count: number) => NUMBERS[count] ?? String(count);

const namesOf = (numbers: number[], finding: Finding, { plan }: Check) =>
  names(
    numbers.map((number) => plan.candidates[number]),
    finding,
  );

/** Words in a row, each with how often it is there and its part of a pair. */
const names = (several: Candidate[], { parts }: Finding) =>
  inRow(
    several.map(({ text, score, part, words }) => {
      const often = words.length > 1 ? ` \u00d7 ${words.length}` : "";
      return phrases([[score < 0 ? "against" : "for", nameInSentence(text)]], often + whichText(part, parts));
    }),
  );

/** Names in a row, as "a, b and c". */
export const inRow = (names: Phrase[][]) =>
  names.flatMap((name, i) => phrases(i === 0 ? "" : i === names.length - 1 ? " and " : ", ", name));
