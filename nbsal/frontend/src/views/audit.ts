// An audit: words as bars of what hiding them corrects and breaks, with their texts; the mistakes and the slices.

import { auditOf } from "../audit-data";
import { mistakeList, openedMistake, sliceBars } from "../audit-mistakes";
import { wordTexts } from "../audit-texts";
import type { AuditTraits } from "../audit-traits";
import { wordTable } from "../audit-words";
import { h } from "../dom";
import { phraseNodes } from "../headline";
import { mount } from "../mount";
import { saveMenu } from "../save";
import { undo } from "../undo";

export default /* @__PURE__ */ mount<AuditTraits>("audit", (context) => {
  const { main, side, on } = context;
  side.remove();
  const sentence = h("p", { class: "nbsal-headline", "aria-live": "polite" });
  const [words, texts] = [wordTable(context), wordTexts(context)];
  const [mistakes, opened, slices] = [mistakeList(context), openedMistake(context), sliceBars()];
  const tools = h("div", { class: "nbsal-tools" }, undo(context, ["picked", "opened"]));
  tools.append(h("span", { class: "nbsal-grow" }), saveMenu(context));
  const parts = [words, texts, mistakes, opened, slices];
  const draw = () => {
    const audit = auditOf(context);
    main.classList.toggle("nbsal-empty", !audit);
    if (!audit) return;
    sentence.replaceChildren(...phraseNodes(audit.sentence));
    for (const part of parts) part.draw(audit);
  };
  on(["_rev"], draw);
  main.append(sentence, ...parts.map(({ node }) => node), tools);
  draw();
});
