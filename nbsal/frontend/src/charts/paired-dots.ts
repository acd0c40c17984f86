// The strongest words with a ring for their share in A and a disc for that in B.

import type { Context } from "../page/context";
import { h } from "../page/dom";
import { formatPercent } from "../page/format";
import type { CompareTraits } from "../page/traits";
import { largestFirst, markList } from "../panels/ranking";
import type { Mark } from "../text/marks";

const RANKED = "ranked by size, for or against";
const UNITS = { own: "100 % = each one\u2019s strongest word", shared: "100 % = the strongest word of both" };

/** The letter of an explanation, in a ring for A and on a disc for B. */
export const badge = (letter: string) =>
  h("span", { class: `nbsal-badge nbsal-badge-${letter.toLowerCase()}` }, letter);

export function pairedDots(context: Context<CompareTraits>) {
  const words = markList(context, "The strongest words", "nbsal-ranking nbsal-dots");
  const [heading, unit] = [h("h3"), h("span")];
  const key = ["A", "B"].map((letter) => h("span", {}, badge(""), ` ${letter}`));
  key[1].firstElementChild?.classList.add("nbsal-badge-b");
  const node = h(
    "section",
    { class: "nbsal-panel nbsal-evidence" },
    h("header", {}, heading, unit),
    words.list,
    h("p", { class: "nbsal-key" }, ...key, h("span", {}, RANKED)),
  );
  return {
    node,
    /** @param shares of A and of B: the share that each word has of the strongest */
    draw(marks: Mark[], texts: string[], [first, second]: number[][], finding: string) {
      heading.textContent = finding;
      heading.title = `Kendall\u2019s \u03c4 of both rankings of all words, ${RANKED}`;
      unit.textContent = UNITS[context.get("scale")];
      const listed = largestFirst(marks.map((_, k) => Math.max(Math.abs(first[k]), Math.abs(second[k]))));
      const values = listed.flatMap((k) => [first[k], second[k]]);
      const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
      const at = (share: number) => (100 * (share - low)) / (high - low || 1);
      words.list.style.setProperty("--zero", `${at(0)}%`);
      words.draw(
        listed.map((k) => marks[k]),
        (row) => drawPair(texts[listed[row]], at, first[listed[row]], second[listed[row]]),
      );
    },
  };
}

function drawPair(text: string, at: (share: number) => number, first: number, second: number) {
  const [ring, disc] = ["a", "b"].map((side) => h("u", { class: `nbsal-dot nbsal-badge-${side}` }));
  const line = h("i", {}, ring, disc);
  ring.style.left = `${at(first)}%`;
  disc.style.left = `${at(second)}%`;
  line.style.setProperty("--from", `${Math.min(at(first), at(second))}%`);
  line.style.setProperty("--length", `${Math.abs(at(first) - at(second))}%`);
  const shares = [first, second].map(
    (share, i) => `${"AB"[i]} ${formatPercent(Math.round(100 * share) / 100 || 0, 0)}`,
  );
  return [h("b", { title: text }, text), line, h("span", {}, shares.join(" \u00b7 "))];
}
