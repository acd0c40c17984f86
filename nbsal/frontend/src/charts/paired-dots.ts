// The strongest words with a ring for their share in A and a disc for that in B.

import type { Context } from "../page/context";
import { h } from "../page/dom";
import type { ComparedRow, CompareTraits } from "../page/traits";
import { markList } from "../panels/ranking";
import type { Mark } from "../text/marks";

/** The letter of an explanation, in a ring for A and on a disc for B. */
export const badge = (letter: string) =>
  h("span", { class: `nbsal-letter nbsal-letter-${letter.toLowerCase()}` }, letter);

export function pairedDots(context: Context<CompareTraits>) {
  const words = markList(context, "The strongest words", "nbsal-ranking nbsal-dots");
  const [heading, unit] = [h("h3"), h("span")];
  const node = h(
    "section",
    { class: "nbsal-panel nbsal-evidence" },
    h("header", {}, heading, unit),
    words.list,
    h("p", { class: "nbsal-quiet" }, context.get("_key")),
  );
  return {
    node,
    draw(marks: Mark[], rows: ComparedRow[], finding: string, strongest: string) {
      heading.textContent = finding;
      heading.title = "Kendall\u2019s \u03c4 of both rankings of all words";
      unit.textContent = `100 % = ${strongest}`;
      const values = rows.flatMap(({ shares }) => shares);
      const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
      const at = (share: number) => (100 * (share - low)) / (high - low || 1);
      words.list.style.setProperty("--zero", `${at(0)}%`);
      words.draw(
        rows.map(({ token }) => marks.find(({ tokens }) => tokens.includes(token))?.tokens ?? []),
        (row) => drawPair(rows[row], at),
      );
    },
  };
}

function drawPair({ name, part, shares, texts }: ComparedRow, at: (share: number) => number) {
  const [ring, disc] = ["a", "b"].map((side) => h("u", { class: `nbsal-dot nbsal-letter-${side}` }));
  const line = h("i", {}, ring, disc);
  const [first, second] = shares.map(at);
  ring.style.left = `${first}%`;
  disc.style.left = `${second}%`;
  line.style.setProperty("--from", `${Math.min(first, second)}%`);
  line.style.setProperty("--length", `${Math.abs(first - second)}%`);
  const quiet = part && h("span", { class: "nbsal-quiet" }, part);
  return [h("b", { title: name + part }, name, quiet), line, ...texts.map((text) => h("span", {}, text))];
}
