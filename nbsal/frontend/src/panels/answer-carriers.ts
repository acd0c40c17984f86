// Under the reply: the earlier words through which the scores of what is chosen came, hop by hop.

import type { AnswerPart, AnswersTraits } from "../page/answer-traits";
import type { Context } from "../page/context";
import { h } from "../page/dom";

/** @param select choose a word of the reply, by its tokens */
export function carriersStrip({ signal }: Context<AnswersTraits>, select: (tokens: number[]) => void) {
  const node = h("div", { class: "nbsal-classes nbsal-carriers", role: "group", hidden: true });
  return {
    node,
    draw({ through }: AnswerPart) {
      const hops = through?.hops ?? [];
      node.hidden = !hops.length;
      if (!through?.lead || !hops.length) return;
      const { then } = through;
      node.setAttribute("aria-label", through.lead);
      const words = hops.map((hop) =>
        hop.map(([tokens, text, share]) =>
          h(
            "button",
            { class: "nbsal-class", title: "Show where its own scores come from", signal, click: () => select(tokens) },
            h("span", { class: "nbsal-name" }, text),
            h("span", {}, share),
          ),
        ),
      );
      node.replaceChildren(
        h("span", { class: "nbsal-quiet" }, through.lead),
        ...words.flatMap((hop, i) => (i ? [h("span", { class: "nbsal-quiet" }, then), ...hop] : hop)),
      );
    },
  };
}
