// A view of many texts: a headline, labels by predictions, the panels of the view, and the table of the texts.

import type { Context } from "../page/context";
import type { CorpusTraits } from "../page/corpus-traits";
import { h } from "../page/dom";
import { mount } from "../page/mount";
import { phraseNodes } from "../text/headline";
import { confusionPanel } from "./confusion";
import { textTable } from "./texts";

export interface Panel {
  node: HTMLElement;
  draw(): void;
}

/** @param panelsOf the panels beside, or above, the table */
export const manyTexts = <Traits extends CorpusTraits>(
  name: string,
  panelsOf?: (context: Context<Traits>) => Panel[],
) =>
  mount<Traits>(name, (context) => {
    const { main, on } = context;
    const shared = context as unknown as Context<CorpusTraits>;
    const headline = h("p", { class: "nbsal-headline", "aria-live": "polite" });
    const panels = panelsOf?.(context) ?? [];
    const [confusion, texts] = [confusionPanel(shared), textTable(shared, !panelsOf)];
    const draw = () => {
      headline.replaceChildren(...phraseNodes(shared.get("_headline")));
      for (const panel of [confusion, ...panels, texts]) panel.draw();
    };
    on(["_rev"], draw);
    const left = panelsOf && h("div", { class: "nbsal-left" }, ...panels.map(({ node }) => node));
    main.append(headline, confusion.node, h("div", { class: "nbsal-many" }, left, texts.node));
    draw();
  });
