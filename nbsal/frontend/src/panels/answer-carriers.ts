// Under the reply: the earlier words through which the scores of what is chosen came, hop by hop.

import type { AnswerPart, AnswersTraits } from "../page/answer-traits";
import type { Context } from "../page/context";
import { h } from "../page/dom";
import { formatPercent } from "../page/format";

/** @param select choose a word of the reply, by its tokens */
export function carriersStrip({ signal }: Context<AnswersTraits>, select: (tokens: number[]) => void) {
  const node = h("div", { class: "nbsal-classes nbsal-carriers", role: "group", hidden: true });
  return {
    node,
    /** @param subject what is explained, in words */
    draw({ through }: AnswerPart, subject: string) {
      const hops = through?.hops ?? [];
      node.hidden = !hops.length;
      if (!through?.share || !hops.length) return;
      node.setAttribute("aria-label", `Words through which the scores of ${subject} came`);
      const words = hops.map((hop) =>
        hop.map(([tokens, text, share]) =>
          h(
            "button",
            { class: "nbsal-class", title: "Show where its own scores come from", signal, click: () => select(tokens) },
            h("span", { class: "nbsal-name" }, text),
            h("span", {}, formatPercent(share, 0)),
          ),
        ),
      );
      const lead = `${formatPercent(through.share, 0)} of the scores of ${subject} came through`;
      const then = h("span", { class: "nbsal-quiet" }, "and from there through");
      node.replaceChildren(
        h("span", { class: "nbsal-quiet" }, lead),
        ...words.flatMap((hop, i) => (i ? [then.cloneNode(true), ...hop] : hop)),
      );
    },
  };
}
