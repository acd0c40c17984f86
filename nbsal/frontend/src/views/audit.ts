// An audit: words as bars of what hiding them corrects and breaks, with their texts; the mistakes and the slices.

import { saveMenu } from "../controls/save";
import { undo } from "../controls/undo";
import type { AuditTraits } from "../page/audit-traits";
import { h } from "../page/dom";
import { mount } from "../page/mount";
import { auditOf } from "../panels/audit-data";
import { mistakeList, openedMistake, sliceBars } from "../panels/audit-mistakes";
import { wordTexts } from "../panels/audit-texts";
import { wordTable } from "../panels/audit-words";
import { phraseNodes } from "../text/headline";

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
