// The texts of the picked words, mistakes first, with the decision about each with and without the words.

import type { AuditData, AuditedWord, Decided } from "../page/audit-traits";
import { h } from "../page/dom";
import { nameInSentence, plural } from "../page/format";
import { excerpt } from "../text/excerpt";
import { phraseNodes } from "../text/headline";
import {
  type AuditContext,
  aroundMark,
  auditOf,
  decisionWords,
  labelOf,
  piecesOf,
  shortened,
  textOf,
  verdict,
} from "./audit-data";

const HINT = "Select a word to read its texts; Ctrl, Cmd or Space adds more.";
const [SAVED, LOADED] = [
  "Hiding several words together needs Python; these are the decisions without each of them.",
  "Loaded without its model: these are the decisions without each of the words, not without all of them.",
];

export function wordTexts(context: AuditContext) {
  const { get, on, live } = context;
  const [heading, note, summary] = [h("h3"), h("span"), h("p", { "aria-live": "polite" })];
  const hint = h("p", { class: "nbsal-quiet" }, HINT);
  const list = h("ol", { class: "nbsal-quotes", tabindex: 0, role: "list", "aria-label": "Texts" });
  const node = h("section", { class: "nbsal-panel" }, h("header", {}, heading, note), hint, summary, list);

  const show = (title: string, listed: number, texts: number, sentence: (Node | string)[], rows: Node[]) => {
    heading.textContent = title;
    const order = auditOf(context)?.judged ? "mistakes first" : "changed first";
    note.textContent = !texts ? "" : listed < texts ? `${listed} of them, ${order}` : order;
    hint.hidden = title !== "";
    summary.replaceChildren(...sentence);
    list.replaceChildren(...rows);
    list.hidden = !rows.length;
    list.scrollTop = 0;
  };
  const draw = () => {
    const [audit, choice, picked] = [auditOf(context), get("_choice"), get("picked") ?? []];
    if (!audit) return;
    const isCurrent = JSON.stringify(choice.picked) === JSON.stringify(picked);
    node.classList.toggle("nbsal-outdated", picked.length > 1 && live && audit.hides && !isCurrent);
    const words = picked.flatMap((name) => audit.words.find(({ word }) => word === name) ?? []);
    const title = (count: number) => `${plural(count, "text")} with ${picked.map(quoted).join(" or ")}`;
    node.hidden = !audit.words.length;
    if (!words.length) show("", 0, 0, [], []);
    else if (words.length === 1) {
      const [{ rows, texts, sentence }] = words;
      show(title(texts), rows.length, texts, phraseNodes(sentence), quotes(audit, words, rows, "it"));
    } else if (isCurrent && choice.sentence) {
      const { rows, texts, sentence } = choice;
      show(title(texts), rows.length, texts, phraseNodes(sentence), quotes(audit, words, rows, "them"));
    } else if (!live || !audit.hides) {
      const rows = words.flatMap((each) => quotes(audit, [each], each.rows, nameInSentence(shortened(each.word))));
      show(`Texts with ${picked.map(quoted).join(" or ")}`, 0, 0, [live ? LOADED : SAVED], rows);
    }
  };
  const quotes = (audit: AuditData, words: AuditedWord[], rows: Decided[], without: string) => {
    const names = new Set(words.map(({ word }) => audit.names.indexOf(word)));
    return rows.flatMap((row) => {
      const text = textOf(context, row[0]);
      return text ? [quote(audit, row, aroundMark(piecesOf(text, (name) => names.has(name))), without)] : [];
    });
  };
  const quote = (audit: AuditData, row: Decided, pieces: ReturnType<typeof piecesOf>, without: string) => {
    const text = textOf(context, row[0]);
    if (!text) return h("li");
    const label = labelOf(audit, text);
    const mistake = label !== null && h("span", {}, h("b", { class: "nbsal-wrong" }, "\u2717"), ` labelled ${label}`);
    const decisions = decisionWords(audit, text, row, without).flatMap(([before, after]) => [
      h("span", {}, before, after.startsWith(" ") ? after : h("b", {}, after)),
    ]);
    const outcome = verdict(text, row);
    const parts = [mistake, ...decisions, outcome && h("span", { class: `nbsal-${outcome}` }, outcome)];
    return h(
      "li",
      {},
      h("span", { class: "nbsal-quiet" }, String(row[0])),
      excerpt(pieces),
      h("small", {}, ...parts.filter((part) => part !== false && part !== "")),
    );
  };
  on(["picked"], draw);
  return { node, draw };
}

const quoted = (word: string) => `\u201c${shortened(word)}\u201d`;
