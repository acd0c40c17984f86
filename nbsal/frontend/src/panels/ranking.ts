// Strongest words: a bar for each, for the target to the right of a common zero, against it to the left.

import { rowList } from "../controls/row-list";
import type { Context } from "../page/context";
import { h } from "../page/dom";
import { formatScores } from "../page/format";
import type { ExplanationTraits, Level } from "../page/traits";
import type { Mark } from "../text/marks";
import { type Named, nameNodes, type RankedWord } from "../text/readout";
import { hoverSender } from "../text/scored-text";

const LISTED = 10;

type TextContext = Context<ExplanationTraits>;

/** A list of marks as rows, which are selected, pointed at and walked like the text. */
export function markList(context: TextContext, label: string, name = "nbsal-ranking") {
  const { get, set, on, signal } = context;
  const hover = hoverSender(context);
  let rows: Mark[] = [];
  const choose = (row: number) => {
    const { tokens } = rows[row];
    const selected = JSON.stringify(get("selection")) === JSON.stringify(tokens);
    set({ selection: selected ? [] : tokens });
  };
  const list = rowList(signal, label, name, {
    choose,
    point: (row) => hover(row === null ? null : rows[row].tokens[0]),
  });
  const drawState = () => {
    const selection = new Set(get("selection"));
    list.select((row) => rows[row].tokens.some((i) => selection.has(i)));
    for (const [row, { tokens }] of rows.entries())
      list.node.children[row]?.classList.toggle("nbsal-hover", tokens.includes(get("hover") ?? -1));
  };
  on(["selection", "hover"], drawState);
  return {
    list: list.node,
    /** Draw a row for each mark from the elements in it. */
    draw(marks: Mark[], cells: (row: number) => Node[]) {
      rows = marks;
      list.draw(rows.length, cells);
      drawState();
    },
  };
}

/** The numbers of the largest of some sizes, the largest first. */
export const largestFirst = (sizes: number[]) =>
  sizes
    .map((_, k) => k)
    .sort((a, b) => sizes[b] - sizes[a] || a - b)
    .slice(0, LISTED);

export function ranking(context: Context<ExplanationTraits & { level: Level }>) {
  const words = markList(context, "Strongest words");
  const unit = h("span");
  const node = h(
    "section",
    { class: "nbsal-panel nbsal-evidence" },
    h("header", {}, h("h3", {}, "Strongest words"), unit),
    words.list,
  );
  return {
    node,
    draw(marks: Mark[], texts: RankedWord[], unitName: string) {
      const groups = merged(texts, context.get("level"));
      const scores = groups.map((group) => group.reduce((sum, k) => sum + texts[k].score, 0));
      const listed = largestFirst(scores.map(Math.abs));
      const numbers = formatScores(listed.map((k) => scores[k]));
      unit.textContent = [unitName, numbers.power].filter(Boolean).join(" \u00b7 ");
      const [low, high] = [Math.min(0, ...scores), Math.max(0, ...scores)];
      const at = (score: number) => (100 * (score - low)) / (high - low || 1);
      words.list.style.setProperty("--zero", `${at(0)}%`);
      const paired = marks.some(({ part }) => part > 0);
      words.draw(
        listed.map((k) => ({ ...marks[groups[k][0]], tokens: groups[k].flatMap((i) => marks[i].tokens) })),
        (row) => {
          const group = groups[listed[row]];
          const often = group.length > 1 ? ` \u00d7 ${group.length}` : "";
          const named = texts[group[0]];
          const aside = often + (paired ? ` (${named.part ? "second" : "first"} text)` : "");
          return bar(named, aside, scores[listed[row]], numbers.texts[row], at);
        },
      );
    },
  };
}

/** The numbers of equal words of a text, which count together as in sentences, the strongest first; tokens do not. */
function merged(words: RankedWord[], level: Level): number[][] {
  const groups = new Map<string, number[]>();
  for (const [k, { part, word }] of words.entries()) {
    const key = level === "word" ? `${part} ${word.toLowerCase()}` : String(k);
    groups.set(key, [...(groups.get(key) ?? []), k]);
  }
  const size = (k: number) => Math.abs(words[k].score);
  return [...groups.values()].map((group) => group.sort((a, b) => size(b) - size(a) || a - b));
}

function bar(named: Named, aside: string, score: number, number: string, at: (score: number) => number) {
  const line = h("i", { class: score < 0 ? "nbsal-against" : "" });
  line.style.setProperty("--from", `${Math.min(at(0), at(score))}%`);
  line.style.setProperty("--length", `${Math.abs(at(score) - at(0))}%`);
  const quiet = aside && h("span", { class: "nbsal-quiet" }, aside);
  return [h("b", { title: named.word + aside }, ...nameNodes(named), quiet), line, h("span", {}, number)];
}
