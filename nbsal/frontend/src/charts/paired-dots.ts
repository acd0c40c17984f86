// The strongest words with a ring for their share in A and a disc for that in B.

import type { Context } from "../page/context";
import { h, panel, percent } from "../page/dom";
import type { ComparedRow, CompareTraits } from "../page/traits";
import { markList } from "../panels/ranking";
import type { Mark } from "../text/marks";

/** The letter of an explanation, in a ring for A and on a disc for B. */
export const badge = (letter: string) =>
  h("span", { class: `nbsal-letter nbsal-letter-${letter.toLowerCase()}` }, letter);

export function pairedDots(context: Context<CompareTraits>) {
  const words = markList(context, "The strongest words", "nbsal-ranking nbsal-dots");
  const key = h("p", { class: "nbsal-quiet" }, context.get("_key"));
  const { node, heading, note } = panel("nbsal-evidence", words.list, key);
  return {
    node,
    draw(marks: Mark[], rows: ComparedRow[], finding: string, strongest: string) {
      heading.textContent = finding;
      heading.title = "Kendall\u2019s \u03c4 of both rankings of all words";
      note.textContent = `100 % = ${strongest}`;
      const at = words.axis(rows.flatMap(({ shares }) => shares));
      words.draw(
        rows.map(({ token }) => marks.find(({ tokens }) => tokens.includes(token))?.tokens ?? []),
        (row) => drawPair(rows[row], at),
      );
    },
  };
}

function drawPair({ name, part, shares, texts }: ComparedRow, at: (share: number) => number) {
  const [first, second] = shares.map(at);
  const ends = { "--from": percent(Math.min(first, second)), "--length": percent(Math.abs(first - second)) };
  const dot = (side: string, place: number) =>
    h("u", { class: `nbsal-dot nbsal-letter-${side}`, "--at": percent(place) });
  const line = h("i", ends, dot("a", first), dot("b", second));
  const quiet = part && h("span", { class: "nbsal-quiet" }, part);
  return [h("b", { title: name + part }, name, quiet), line, ...texts.map((text) => h("span", {}, text))];
}
