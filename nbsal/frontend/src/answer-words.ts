// The headline of an answer: where a part of the reply comes from, in one sentence. The same as in Python.

import { formatPercent } from "./format";
import type { Phrase } from "./headline";

const ALONE = 0.4; // share above which one source is named alone
const MOST = 0.5;
const NOTABLE = 0.1; // share against from which a source is named
const OWN = 0.1; // change of a token's probability without all sources, below which the model wrote from itself
const SO_FAR = "the reply so far";
const ENOUGH = 0.6; // share of the reply's words that depend on a source
const MOST_WORDS = 3;

export interface SourceName {
  name: string;
  title: string;
}

/** What the sources add to a part of the reply, or to all of it if `part` is blank. */
export interface Contribution {
  part: string;
  rival: string;
  /** Of each source, and last of the reply so far. */
  shares: number[];
  /** By what share the probability of a token changes without any source, if that is known. */
  change: number | null;
  aboutTarget: boolean;
}

const whole = (share: number) => formatPercent(share, 0);
const text = (words: string): Phrase => ["text", words];

/** A part of a text as a sentence names it, without the punctuation at its end. */
export const namedPart = (part: string) => part.trim().replace(/[.,;:!?]+$/, "") || part.trim();

export function answerHeadline(contribution: Contribution, names: SourceName[]): Phrase[] {
  const { part, rival, shares, change, aboutTarget } = contribution;
  const lead = leadOf(contribution);
  const subject: Phrase[] = lead.length ? lead : [["class", "The reply"]];
  const start = (behind: string, alone: string, rest: string): Phrase[] =>
    lead.length ? [...lead, text(` ${behind}${rest}`)] : [text(`${alone}${rest}`)];
  if (change !== null && Math.abs(change) < OWN && !rival) {
    const rest = `rom the model itself: the sources change it by ${whole(Math.abs(change))}.`;
    return [text("\u25b2 "), ...start("comes mostly f", "Mostly f", rest)];
  }
  const given = shares.slice(0, -1);
  const soFar = shares[shares.length - 1];
  const order = given.map((_, i) => i).sort((a, b) => given[b] - given[a] || a - b);
  const best = order.length && given[order[0]] > 0 ? order[0] : null;
  const verb = (about: string, share: number) =>
    `${aboutTarget ? about : "attends"} ${share > MOST ? "mostly" : "largely"} ${aboutTarget ? "from" : "to"}`;
  if (part && soFar > ALONE && (best === null || soFar > given[best])) {
    const second =
      best !== null && given[best] >= NOTABLE ? [text(`; ${names[best].name} gives ${whole(given[best])}`)] : [];
    return [...subject, text(` ${verb("follows", soFar)} ${SO_FAR} (${whole(soFar)})`), ...second, text(".")];
  }
  if (best === null) return [...subject, text(" has no source that speaks for it.")];
  if (given[best] > ALONE) {
    const { name, title } = names[best];
    const named: Phrase[] = title ? [text(`${name}, `), ["for", title]] : [["for", name]];
    const against = opposing(given, names, rival);
    const share = text(` (${whole(given[best])})`);
    return [...subject, text(` ${verb("comes", given[best])} `), ...named, share, ...against, text(".")];
  }
  const listed = order.slice(0, 2).filter((i) => given[i] > 0);
  const pairs = listed.map(
    (i, k) => `${names[i].name}${k && !/\d$/.test(names[i].name) ? "" : " gives"} ${whole(given[i])}`,
  );
  return start("has n", "N", `o single source: ${pairs.join(", ")}.`);
}

function leadOf({ part, rival }: Contribution): Phrase[] {
  if (!part) return [];
  const against: Phrase[] = rival ? [text(" rather than \u201c"), ["against", rival], text("\u201d")] : [];
  return [text("\u201c"), ["class", namedPart(part)], text("\u201d"), ...against];
}

/** The source that speaks most against it, or for the rival. */
function opposing(given: number[], names: SourceName[], rival: string): Phrase[] {
  const worst = given.indexOf(Math.min(...given));
  if (given[worst] > -NOTABLE) return [];
  if (!rival) return [text(`; ${names[worst].name} speaks against it`)];
  return [text(`; ${names[worst].name} speaks for \u201c`), ["against", rival], text("\u201d")];
}

/** Which words of the reply depend on words of a source. */
export function sourceHeadline(part: string, source: string, words: { text: string; score: number }[]): Phrase[] {
  const lead: Phrase[] = [text("\u201c"), ["class", namedPart(part)], text(`\u201d in ${source}`)];
  const supported = words.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score);
  const total = supported.reduce((sum, { score }) => sum + score, 0);
  const chosen: string[] = [];
  let held = 0;
  for (const { text, score } of supported) {
    if (chosen.length === MOST_WORDS || held >= ENOUGH * total) break;
    held += score;
    if (!chosen.includes(text)) chosen.push(text);
  }
  if (!chosen.length) return [...lead, text(" speaks for no word of the reply.")];
  const list = chosen.flatMap((word, i): Phrase[] => [
    text(`${i === 0 ? "" : i === chosen.length - 1 ? " and " : ", "}\u201c`),
    ["for", word],
    text("\u201d"),
  ]);
  return [...lead, text(" speaks mostly for "), ...list, text(".")];
}
