// The text that a row of a table opens: the headline, the shaded text, its readout and legend, the words by score.

import { colourScale } from "../controls/display";
import type { Context } from "../page/context";
import type { CorpusTraits } from "../page/corpus-traits";
import { h } from "../page/dom";
import { ranking } from "../panels/ranking";
import { explanationReader } from "./explanation";
import { effectRows, phraseNodes } from "./headline";
import { legend } from "./legend";
import { type Mark, marksOf } from "./marks";
import { scoredText } from "./scored-text";

export function openedText(context: Context<CorpusTraits>) {
  const { get, live } = context;
  const read = explanationReader(context);
  const text = scoredText(context);
  const [words, colours] = [ranking(context), legend()];
  const title = h("h3");
  const answer = h("p", { class: "nbsal-headline", "aria-live": "polite" });
  const [line, bars] = [h("summary", { tabindex: 0 }), h("div", { class: "nbsal-effects" })];
  const badge = h("span", { class: "nbsal-badge" });
  const check = h("div", { class: "nbsal-check" }, badge, h("details", {}, line, bars));
  const page = h("div", { class: "nbsal-page" }, text.node);
  const keys = h("span");
  const node = h(
    "section",
    { class: "nbsal-panel nbsal-opened" },
    h("header", { class: "nbsal-small" }, title, keys),
    answer,
    check,
    page,
    h("div", { class: "nbsal-read nbsal-small" }, text.readout.node, colours.node),
    words.node,
  );
  let marks: Mark[] = [];
  let laidOut: unknown[] = [];
  return {
    node,
    /** Draw the text; the number of the one that is shown, or null. */
    draw() {
      const explanation = read();
      const { opened, hints } = get("_table");
      if (!explanation || !opened || get("opened") === null) return null;
      const level = get("level");
      const { tokens, parts, rows } = explanation;
      if (tokens !== laidOut[0] || level !== laidOut[1]) {
        laidOut = [tokens, level];
        marks = marksOf(tokens, level);
        text.layOut({ marks, parts, answer: explanation.answer });
      }
      const scale = colourScale(context);
      const ranked = explanation.legends[0].ranked[level];
      text.readout.setScores(ranked);
      const { scores } = text.paint(rows[0], scale);
      keys.textContent = (live && hints?.keys) || "";
      title.textContent = `Text ${opened.number}`;
      const { sentence, state, evidence_line, effects } = opened.statement;
      badge.textContent = opened.statement.badge;
      badge.hidden = !badge.textContent;
      answer.replaceChildren(...phraseNodes(sentence));
      check.dataset.state = state;
      check.hidden = !evidence_line;
      line.textContent = evidence_line;
      bars.replaceChildren(...effectRows(effects));
      const negative = scores.some((score) => score < 0);
      colours.draw(scale, negative, explanation.legends[0].strongest[level]);
      words.draw(ranked, explanation.unit, opened.statement.alone);
      page.classList.toggle("nbsal-scrolls", text.long());
      node.classList.toggle("nbsal-outdated", get("opened") !== opened.number);
      return opened.number;
    },
  };
}
