// The words of an audit as bars: decisions that hiding each corrects to the right, and those that it breaks to the left.

import { rowList } from "../controls/row-list";
import type { AuditData, AuditedWord, WordEffect } from "../page/audit-traits";
import { h } from "../page/dom";
import { formatPercent, formatScore, plural } from "../page/format";
import { readoutLine } from "../text/readout";
import { type AuditContext, auditOf, isSame } from "./audit-data";

const HINT = "Point at a word to see what was measured.";

export function wordTable(context: AuditContext) {
  const { get, set, on, signal } = context;
  const readout = readoutLine(HINT);
  let words: AuditedWord[] = [];
  const picked = () => get("picked") ?? [];
  const describe = (row: number | null) => {
    const audit = auditOf(context);
    readout.setHint(row === null || !audit ? [HINT] : wordNodes(audit, words[row]));
  };
  const choose = (row: number, adds: boolean) => {
    const { word } = words[row];
    const [before, isPicked] = [picked(), picked().includes(word)];
    if (adds) set({ picked: isPicked ? before.filter((other) => other !== word) : [...before, word] });
    else set({ picked: isPicked && before.length === 1 ? [] : [word] });
    list.activate(row);
    describe(row);
  };
  const list = rowList(signal, "Words, the most harmful first", "nbsal-audit-words", {
    choose,
    point: describe,
    walk(row) {
      describe(row);
      list.node.children[row].scrollIntoView({ block: "nearest" });
    },
    leave: () => set({ picked: [] }),
  });
  list.node.setAttribute("aria-multiselectable", "true");
  const [heading, note] = [h("h3"), h("span")];
  const titles = h("div", { class: "nbsal-audit-titles", "aria-hidden": "true" });
  const node = h(
    "section",
    { class: "nbsal-panel" },
    h("header", {}, heading, note),
    titles,
    list.node,
    h("div", { class: "nbsal-read" }, readout.node),
  );
  const drawPicked = () => list.select((row) => picked().includes(words[row].word));
  on(["picked"], drawPicked);
  let drawn: AuditData | null = null;
  return {
    node,
    draw(audit: AuditData) {
      if (isSame(audit, drawn)) return drawPicked();
      drawn = audit;
      words = audit.words;
      heading.textContent = audit.headings.words;
      note.textContent = models(audit);
      node.classList.toggle("nbsal-flips", !audit.judged);
      node.classList.toggle("nbsal-two", audit.models.length > 1);
      titles.replaceChildren(...(audit.judged ? JUDGED : NEUTRAL).map((name) => h("span", {}, name)));
      const most = Math.max(1, ...words.flatMap(({ effects }) => effects.flatMap(({ counts }) => counts)));
      list.draw(words.length, (row) => cells(audit, words[row], most));
      drawPicked();
    },
  };
}

/** The titles of the columns; bars have none. */
const JUDGED = ["Word", "speaks for", "breaks", "", "", "corrects", "texts", "too often"];
const NEUTRAL = ["Word", "speaks for", "", "changes", "texts", "pull"];

/** Which models the two bars of a word are of. */
const models = ({ models: [first, second] }: AuditData) =>
  second === undefined ? "" : `A: ${first} \u00b7 B: ${second}`;

const scoreText = (value: number | null) => (value === null ? "\u2013" : formatScore(value));
const shareText = (value: number | null) =>
  value === null ? "\u2013" : `${value > 0 ? "+" : ""}${formatPercent(value, 0)}`;
/** A number of each model. */
const each = (effects: WordEffect[], text: (effect: WordEffect) => string) => effects.map(text).join(" | ");

function cells({ judged }: AuditData, { word, name, label, texts, effects, kind }: AuditedWord, most: number) {
  const side = (className: string, index: number) => {
    const bars = effects.map(({ counts }) => {
      const bar = h("i", { class: className });
      bar.style.setProperty("--length", `${(100 * counts[index]) / most}%`);
      return bar;
    });
    return h("span", { class: "nbsal-audit-bars" }, ...bars);
  };
  const number = (index: number) =>
    h(
      "span",
      {},
      each(effects, ({ counts }) => String(counts[index])),
    );
  const mark = kind && h("small", { title: kind.slice(2) }, kind[0], h("span", {}, kind.slice(1)));
  const shown = h("b", { title: word, dir: "auto" }, name);
  const bars = judged ? [number(1), side("nbsal-breaks", 1), side("nbsal-corrects", 0), number(0)] : [];
  const flips = judged ? [] : [side("nbsal-corrects", 0), number(0)];
  const last = judged ? each(effects, ({ excess }) => shareText(excess)) : each(effects, ({ pull }) => scoreText(pull));
  return [
    h("span", { class: "nbsal-audit-name" }, shown, mark),
    h("span", { class: "nbsal-audit-more", title: label }, label),
    ...bars,
    ...flips,
    h("span", { class: "nbsal-audit-more" }, String(texts)),
    h("span", { class: "nbsal-audit-more" }, last),
  ];
}

/** "not · speaks for negative · 45 texts · corrects 14, breaks 3 · ... · a random word changes 4 · p 0.003 ◆ misleads" */
function wordNodes({ judged }: AuditData, { name, label, texts, effects, random, p, kind }: AuditedWord) {
  const measured = effects.map(({ counts, pull, low, high, excess }, model) => {
    const owner = effects.length > 1 ? `${"AB"[model]}: ` : "";
    const did = judged ? `corrects ${counts[0]}, breaks ${counts[1]}` : `changes ${counts[0]}`;
    const often = judged ? ` \u00b7 ${shareText(excess)} too often` : "";
    return ` \u00b7 ${owner}${did} \u00b7 pull ${scoreText(pull)} (${scoreText(low)} to ${scoreText(high)})${often}`;
  });
  const chance = ` \u00b7 p ${p === null ? "\u2013" : p.toFixed(3)}${kind && ` ${kind}`}`;
  const baseline = ` \u00b7 a random word changes ${random}`;
  const head = `${label && ` \u00b7 speaks for ${label}`} \u00b7 ${plural(texts, "text")}`;
  return [h("b", {}, name), `${head}${measured.join("")}${baseline}${chance}`];
}
