// What becomes of the same reply without each source: its log-probability before and after, as bars.

import type { AnswerPart } from "../page/answer-traits";
import { h } from "../page/dom";
import type { AnswerData } from "./answer-data";

/** The log-probability of some tokens, in words. */
export const logText = (value: number) => {
  const text = value.toFixed(Math.abs(value) < 0.095 ? 2 : 1);
  return text.replace("-", "\u2212").replace(/^\u2212(0\.0+)$/, "$1");
};

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
    /** @param struck what is struck out, in words, if it has a bar of its own */
    draw({ logs, heading: title, tokens, rival }: AnswerPart, { sources, reply }: AnswerData, struck: string) {
      const [before, taken, ...without] = logs;
      node.hidden = typeof before !== "number";
      if (typeof before !== "number") return;
      const likelihood = (value: number) => Math.exp((value - before) / tokens.length);
      heading.textContent = title;
      note.textContent = rival
        ? "log-odds of the two tokens; bars: their odds, relative to all sources"
        : "log-probability of the same words; bars: probability per token, relative to all sources";
      const rows = reply.measured.map((source, i): [string, number] => [
        `without ${sources[source].name}`,
        without[i] as number,
      ]);
      if (struck && typeof taken === "number") rows.push([`without ${struck}`, taken]);
      bars.replaceChildren(
        ...rows.flatMap(([label, value]) => {
          const bar = h("i", { class: "nbsal-changed" });
          bar.style.setProperty("--now", `${100 * Math.min(1, likelihood(value))}%`);
          bar.style.setProperty("--before", "100%");
          const numbers = h("span", {}, `${logText(before)} \u2192 `, h("b", {}, logText(value)));
          return [h("span", {}, label), bar, numbers];
        }),
      );
    },
  };
}
