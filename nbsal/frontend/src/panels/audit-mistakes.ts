// The mistakes of an audit with the words behind each, the text that one of them opens, and the slices as bars.

import { rowList } from "../controls/row-list";
import type { AuditData, AuditSlice, Mistake } from "../page/audit-traits";
import { h } from "../page/dom";
import { confidence, formatPercent, plural } from "../page/format";
import { excerpt } from "../text/excerpt";
import { type AuditContext, auditOf, isSame, labelOf, piecesOf, shortened, textOf } from "./audit-data";

const MARK = "\u25c6"; // the sign of what is beyond chance
const HINT = "Select a mistake to read its text.";

export function mistakeList(context: AuditContext) {
  const { get, set, on, signal } = context;
  const [heading, note] = [h("h3"), h("span")];
  let mistakes: Mistake[] = [];
  const open = (row: number) => set({ opened: mistakes[row].number });
  const list = rowList(signal, "Mistakes", "nbsal-mistakes", {
    choose: (row) => (get("opened") === mistakes[row].number ? set({ opened: null }) : open(row)),
    walk(row) {
      list.node.children[row].scrollIntoView({ block: "nearest" });
      if (get("opened") !== null) open(row);
    },
    leave: () => set({ opened: null }),
  });
  const node = h("section", { class: "nbsal-panel" }, h("header", {}, heading, note), list.node);
  const drawOpened = () => list.select((row) => mistakes[row].number === get("opened"));
  on(["opened"], drawOpened);
  let drawn: AuditData | null = null;
  const cells = (audit: AuditData, { number, words }: Mistake) => {
    const text = textOf(context, number);
    if (!text) return [];
    const [[decided, share]] = text.decisions;
    const label = h(
      "small",
      {},
      h("b", { class: "nbsal-wrong" }, "\u2717"),
      ` labelled ${labelOf(audit, text)} \u00b7 `,
    );
    label.append(`${audit.classes[decided]} ${confidence(share)}`);
    const behind = words.map((word) => `\u201c${shortened(word)}\u201d`).join(", ");
    const cause = behind
      ? h("span", { class: "nbsal-behind", title: behind }, h("span", { class: "nbsal-quiet" }, "behind it: "), behind)
      : h("span", { class: "nbsal-behind nbsal-quiet" }, "hiding a few words does not correct it");
    const content = text.parts.map(([part]) => part).join(" | ");
    return [
      h("span", { class: "nbsal-quiet" }, String(number)),
      h("span", { class: "nbsal-line", dir: "auto" }, content.slice(0, 300)),
      label,
      cause,
    ];
  };
  return {
    node,
    draw(audit: AuditData) {
      node.hidden = !audit.mistakes.length;
      if (!isSame(audit, drawn)) {
        drawn = audit;
        mistakes = audit.mistakes;
        heading.textContent = audit.headings.mistakes;
        list.draw(mistakes.length, (row) => cells(audit, mistakes[row]));
      }
      drawOpened();
    },
  };
}

/** The opened text in full, with the words behind the mistake marked. */
export function openedMistake(context: AuditContext) {
  const { get, on } = context;
  const [heading, label, behind] = [h("h3"), h("span"), h("p", { "aria-live": "polite" })];
  const body = h("div", { class: "nbsal-opened-text", tabindex: 0, role: "region", "aria-label": "Opened text" });
  const hint = h("p", { class: "nbsal-quiet" }, HINT);
  const node = h("section", { class: "nbsal-panel" }, h("header", {}, heading, label), hint, behind, body);
  const draw = () => {
    const [audit, opened] = [auditOf(context), get("opened")];
    if (!audit) return;
    const text = opened === null ? undefined : textOf(context, opened);
    node.hidden = !audit.mistakes.length && !text;
    body.hidden = label.hidden = !text;
    hint.hidden = Boolean(text);
    heading.textContent = text ? `Text ${opened}` : "";
    behind.textContent = "";
    if (!text) return;
    const mistake = audit.mistakes.find(({ number }) => number === opened);
    const wrong = labelOf(audit, text);
    const [[decided, share]] = text.decisions;
    label.textContent = `${audit.classes[decided]} ${confidence(share)}${wrong === null ? "" : ` \u00b7 \u2717 labelled ${wrong}`}`;
    behind.textContent = mistake?.sentence ?? get("_choice").behind ?? "";
    const names = new Set((mistake?.words ?? []).map((word) => audit.names.indexOf(word.toLowerCase())));
    const places = new Set(mistake?.places);
    body.replaceChildren(excerpt(piecesOf(text, (name, place) => places.has(place) || (name >= 0 && names.has(name)))));
  };
  on(["opened"], draw);
  return { node, draw };
}

/** The slices as bars: the error rate with its interval, and a tick at that of all other texts. */
export function sliceBars() {
  const heading = h("h3");
  const key = h("span", {}, "bar: error rate \u00b7 line: 95 % interval \u00b7 tick: all other texts");
  const rows = h("div", { class: "nbsal-changes", tabindex: 0, role: "region", "aria-label": "Slices" });
  const node = h("section", { class: "nbsal-panel nbsal-slices" }, h("header", {}, heading, key), rows);
  return {
    node,
    draw({ judged, slices, headings }: AuditData) {
      node.hidden = !judged || !slices.length;
      heading.textContent = headings.slices;
      const most = Math.max(0.01, ...slices.flatMap(({ high, rest }) => [high, rest]));
      rows.replaceChildren(...slices.flatMap((slice) => drawSlice(slice, most)));
    },
  };
}

function drawSlice({ name, texts, rate, low, high, rest, toward, excess, beyond_chance }: AuditSlice, most: number) {
  const line = h("s");
  const bar = h("i", { class: "nbsal-changed" }, line);
  const set = (property: string, share: number) => bar.style.setProperty(property, `${(100 * share) / most}%`);
  set("--now", rate);
  set("--before", rest);
  set("--low", low);
  set("--high", high);
  const percent = (share: number) => formatPercent(share, 0);
  const often = toward && excess ? ` \u00b7 ${toward} ${excess > 0 ? "+" : ""}${percent(excess)} too often` : "";
  const mark = beyond_chance && h("b", {}, `${MARK} beyond chance `);
  const range = ` (${percent(low)} to ${percent(high)}), elsewhere ${percent(rest)} \u00b7 ${plural(texts, "text")}`;
  return [
    h("span", { class: "nbsal-name", title: name, dir: "auto" }, name),
    bar,
    h("span", {}, mark, h("b", {}, percent(rate)), beyond_chance ? range + often : range),
  ];
}
