// How far two explanations of a text agree, in the words that Python uses: the sentence and the heading of Compare.

import type { Token } from "../page/decode";
import type { ComparedFindings, ComparedRow, Level, Phrase, Scale } from "../page/traits";
import { type Mark, marksOf, totals } from "../text/marks";
import { isFunctionWord, whichText } from "./candidates";
import { confidence, formatPercent, formatScore, nameInSentence, plural } from "./format";
import { className, inRow, LEANING, phrases, unchecked } from "./sentence";

const TOP = 5; // words whose overlap is counted
const AGREEMENT: [number, string][] = [
  [0.7, "agree well"],
  [0.4, "agree moderately"],
  [0.1, "agree little"],
];
const EQUAL = 0.005; // a difference below half a percent is none
const LONGEST = 40; // characters of a word
const LISTED = 10;
const WEIGHTY = 0.25; // share of the strongest word of each from which opposite signs are told
const MOST_OPPOSITE = 3; // words of opposite signs that are named
const UNITS = { own: "each one\u2019s strongest word", shared: "the strongest word of both" };

/** One of two explanations. */
export interface Compared {
  prediction: string;
  confidence: number;
  target: string;
  row: ArrayLike<number>;
  ties: ArrayLike<number>;
}

/** Two explanations by the words or tokens of a text. */
interface Pair {
  both: Compared[];
  level: Level;
  parts: string[];
  marks: Mark[];
  scores: number[][];
  /** The words by the size of their scores. */
  orders: number[][];
  /** The size of the largest. */
  largest: number[];
  /** Words that one counts for and the other against what both explain. */
  opposite: number[];
}

export function findings(tokens: Token[], parts: string[], both: Compared[], functionWords: ReadonlySet<string>) {
  const of = (level: Level): ComparedFindings => {
    const pair = pairOf(tokens, parts, both, level, functionWords);
    const statements = { own: unchecked(sentence(pair, "own")), shared: unchecked(sentence(pair, "shared")) };
    return {
      heading: agreement(pair),
      units: UNITS,
      maxima: `The score of the strongest ${level}: ${pair.largest.map((score, i) => `${"AB"[i]} ${formatScore(score)}`).join(", ")}`,
      statements,
      rows: { own: listed(pair, "own"), shared: listed(pair, "shared") },
    };
  };
  return { word: of("word"), token: of("token") };
}

function pairOf(
  tokens: Token[],
  parts: string[],
  both: Compared[],
  level: Level,
  functionWords: ReadonlySet<string>,
): Pair {
  const marks = marksOf(tokens, level);
  const scores = both.map(({ row }) => totals(marks, row));
  const orders = both.map(({ ties }, i) => {
    const tied = totals(marks, ties);
    const order = [...marks.keys()].sort((a, b) => scores[i][b] - scores[i][a] || tied[b] - tied[a] || a - b);
    return order.sort((a, b) => Math.abs(scores[i][b]) - Math.abs(scores[i][a]));
  });
  const largest = scores.map((row) => row.reduce((most, score) => Math.max(most, Math.abs(score)), 0));
  const shares = sharesOf(scores, largest);
  const weight = (place: number) => Math.min(...shares.map((row) => Math.abs(row[place])));
  const same = both[0].target === both[1].target;
  const content = marks.map(({ part, start, end }) => !isFunctionWord(parts[part].slice(start, end), functionWords));
  const apart = (k: number) => content[k] && shares[0][k] * shares[1][k] < 0 && weight(k) >= WEIGHTY;
  const opposite = [...marks.keys()].filter((k) => same && apart(k));
  opposite.sort((a, b) => weight(b) - weight(a));
  return { both, level, parts, marks, scores, orders, largest, opposite };
}

const sharesOf = (scores: number[][], tops: number[]) =>
  scores.map((row, i) => row.map((score) => score / (tops[i] || 1)));

const scaled = ({ scores, largest }: Pair, scale: Scale) =>
  sharesOf(scores, scale === "own" ? largest : largest.map(() => Math.max(...largest)));

/** The strongest words with both shares. */
function listed(pair: Pair, scale: Scale): ComparedRow[] {
  const shares = scaled(pair, scale);
  const size = (place: number) => Math.max(...shares.map((row) => Math.abs(row[place])));
  const order = [...pair.marks.keys()].sort((a, b) => size(b) - size(a) || a - b).slice(0, LISTED);
  return order.map((place) => {
    const both = shares.map((row) => row[place]);
    const texts = both.map((share, i) => `${"AB"[i]} ${formatPercent(Math.round(100 * share) / 100 || 0, 0)}`);
    const { name, part } = nameOf(pair, place);
    return { name, part, token: pair.marks[place].tokens[0], shares: both, texts };
  });
}

/** Kendall's rank correlation, as a heading. */
function agreement({ orders: [first, second], level, opposite }: Pair) {
  if (first.length < 2) return `One ${level} has no ranking.`;
  const rankInSecond = new Map(second.map((place, rank) => [place, rank]));
  const ranks = first.map((place) => rankInSecond.get(place) as number);
  const discordant = ranks.reduce((sum, rank, i) => sum + ranks.slice(i + 1).filter((later) => later < rank).length, 0);
  const rank = 1 - (4 * discordant) / (ranks.length * (ranks.length - 1));
  const tau = Number(rank.toFixed(2)) + 0;
  const degree = AGREEMENT.find(([least]) => tau >= least)?.[1] ?? "do not agree at all";
  const number = tau.toFixed(2).replace("-", "\u2212");
  const signs = opposite.length ? `${plural(opposite.length, level)} with opposite signs; r` : "R";
  return `${signs}ankings by absolute score ${degree} (\u03c4 = ${number})`;
}

function sentence(pair: Pair, scale: Scale): Phrase[] {
  return [
    ...decisions(pair.both),
    ...oppositeSigns(pair),
    ...strongest(pair),
    ...difference(pair, scale),
    ...phrases("."),
  ];
}

/** The prediction, and what is explained if that is something else. */
function decisions([first, second]: Compared[]): Phrase[] {
  const { prediction, target } = first;
  const leaning = first.confidence < LEANING ? "leaning " : "";
  const lead = phrases(leaning, className(prediction), `, ${confidence(first.confidence)}. `);
  const explained = className(target);
  if (target !== second.target) return phrases(lead, "A explains ", explained, ", B ", className(second.target), ". ");
  return target === prediction ? lead : phrases(lead, "Both explain ", explained, ". ");
}

/** The weightiest words that one counts for and the other against. */
function oppositeSigns(pair: Pair): Phrase[] {
  const clauses = [
    ["against", "for"],
    ["for", "against"],
  ].map(([side, other]) => {
    const mine = pair.opposite.slice(0, MOST_OPPOSITE).filter((k) => pair.scores[0][k] < 0 === (side === "against"));
    const names = new Map(mine.map((place) => marked(pair, place, 0)).map((name) => [JSON.stringify(name), name]));
    return names.size ? phrases("A counts ", inRow([...names.values()]), ` ${side}, B ${other}. `) : [];
  });
  return clauses.flat();
}

/** The strongest word of each, and how many of the strongest they share. */
function strongest(pair: Pair): Phrase[] {
  const { level, orders, largest } = pair;
  const [first, second] = orders.map(([place]) => place);
  const words = [marked(pair, first, 0), marked(pair, second, 1)];
  if (orders[0].length === 1) return phrases(`The only ${level} is `, words[0]);
  const empty = [0, 1].filter((i) => !largest[i]);
  if (empty.length === 2) return phrases(`Both score every ${level} 0`);
  if (empty.length) {
    const other = 1 - empty[0];
    const zero = `${"AB"[empty[0]]} scores every ${level} 0; ${"AB"[other]} names `;
    return phrases(zero, words[other], " first");
  }
  const count = Math.min(TOP, orders[0].length);
  const tops = orders.map((order) => order.slice(0, count));
  const common = tops[0].filter((place) => tops[1].includes(place)).length;
  const share = common === count ? "" : `${common || "none"} of `;
  const shared = orders[0].length > count ? `share ${share}their ${count} strongest ${level}s` : "";
  if (first !== second) return phrases("A names ", words[0], " first, B ", words[1], shared && `; they ${shared}`);
  return phrases("Both name ", words[0], ` first${shared && ` and ${shared}`}`);
}

/** The word about which both differ most. */
function difference(pair: Pair, scale: Scale): Phrase[] {
  const { level, orders, largest } = pair;
  if (orders[0].length === 1 || !largest.every(Boolean)) return [];
  const shares = scaled(pair, scale);
  const apart = (place: number) => Math.abs(shares[0][place] - shares[1][place]);
  const most = [...orders[0]].sort((a, b) => apart(b) - apart(a) || a - b)[0];
  if (apart(most) < EQUAL) return phrases(`; they score every ${level} alike`);
  if (pair.opposite.slice(0, MOST_OPPOSITE).includes(most)) return [];
  const side = Math.abs(shares[1][most]) > Math.abs(shares[0][most]) ? 1 : 0;
  return phrases("; they differ most about ", marked(pair, most, side));
}

/** A word, marked by the sign of its score in one of the explanations, and its part of a pair. */
function marked(pair: Pair, place: number, side: number): Phrase[] {
  const { name, part } = nameOf(pair, place);
  const kind = pair.scores[side][place] < 0 ? "against" : "for";
  return phrases([[kind, nameInSentence(name)]], part);
}

function nameOf({ marks, parts }: Pair, place: number) {
  const { part, start, end } = marks[place];
  const word = parts[part].slice(start, end).split(/\s+/).join(" ");
  const name = word.length > LONGEST ? `${word.slice(0, LONGEST - 1)}\u2026` : word;
  return { name, part: whichText(part, parts.length) };
}
