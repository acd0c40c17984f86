// What becomes of the same reply without each source: its log-probability before and after, as bars.

import type { AnswerData } from "./answer-data";
import { decodeRows } from "./answer-data";
import type { AnswersTraits } from "./answer-traits";
import { h } from "./dom";

const NEEDED = 0.8; // of the probability of a token, below which a source is needed
const HELPFUL = 0.95;
const ALL = 0; // rows of log-probabilities: with everything, with nothing, without what is struck, without each source
const NOTHING = 1;
const STRUCK = 2;
const EACH = 3;

/** The log-probability of some tokens, in words. */
export const logText = (value: number) => {
  const text = value.toFixed(Math.abs(value) < 0.095 ? 2 : 1);
  return text.replace("-", "\u2212").replace(/^\u2212(0\.0+)$/, "$1");
};

export interface Drops {
  before: number;
  struck: number;
  /** Without all sources, by what share the probability of a token changes. */
  change: number;
  /** Of each source that the model reads. */
  without: Map<number, number>;
}

/** The log-probabilities of some tokens of the reply, or null where they are not computed. */
export function dropsOf(
  { sources, values }: AnswersTraits["_hidden"],
  data: AnswerData,
  tokens: number[],
): Drops | null {
  if (!sources || !tokens.length) return null;
  const rows = decodeRows(values, data.reply.logprobs.length);
  const sum = (row: number) => tokens.reduce((total, token) => total + (rows[row]?.[token] ?? 0), 0);
  const before = sum(ALL);
  return {
    before,
    struck: sum(STRUCK),
    change: 1 - Math.exp((sum(NOTHING) - before) / tokens.length),
    without: new Map(sources.map((source, i) => [source, sum(EACH + i)])),
  };
}

export function dropsPanel() {
  const heading = h("h3");
  const note = h("span");
  const bars = h("div", { class: "nbsal-changes nbsal-drops" });
  const node = h(
    "section",
    { class: "nbsal-panel nbsal-evidence", hidden: true },
    h("header", { role: "presentation" }, heading, note),
    bars,
  );
  return {
    node,
    /** @param count tokens that are scored
     *  @param subject what they are: "the reply", or words of it in quotation marks
     *  @param struck whether anything is struck out, in words */
    draw(drops: Drops | null, { sources }: AnswerData, count: number, subject: string, struck: string) {
      node.hidden = !drops;
      if (!drops) return;
      const { before, without } = drops;
      const likelihood = (value: number) => Math.exp((value - before) / count);
      const [worst] = [...without].sort((a, b) => a[1] - b[1])[0] ?? [0];
      const kept = likelihood(without.get(worst) ?? before);
      const name = sources[worst]?.name ?? "";
      const fall = kept < NEEDED ? "far less likely" : "a little less likely";
      heading.textContent =
        kept < HELPFUL ? `Without ${name} ${subject} is ${fall}` : `No single source is needed for ${subject}`;
      note.textContent = "log-probability of the same words; bars: probability per token, relative to all sources";
      const rows: [string, number][] = [...without].map(([source, value]) => [
        `without ${sources[source].name}`,
        value,
      ]);
      if (struck) rows.push([`without ${struck}`, drops.struck]);
      bars.replaceChildren(
        ...rows.flatMap(([label, value]) => {
          const bar = h("i", {
            class: "nbsal-changed",
            title: "Probability per token, relative to that with all sources",
          });
          bar.style.setProperty("--now", `${100 * Math.min(1, likelihood(value))}%`);
          bar.style.setProperty("--before", "100%");
          const numbers = h("span", {}, `${logText(before)} \u2192 `, h("b", {}, logText(value)));
          return [h("span", {}, label), bar, numbers];
        }),
      );
    },
  };
}
