// Strongest words: a bar for each, for the target to the right of a common zero, against it to the left.

import { rowList } from "../controls/row-list";
import type { Context } from "../page/context";
import { h, panel, percent } from "../page/dom";
import type { ExplanationTraits, Phrase, RankedList, RankedRow, Statement } from "../page/traits";
import { phraseNodes } from "../text/headline";
import { nameNodes } from "../text/readout";
import { hoverSender } from "../text/scored-text";

type TextContext = Context<ExplanationTraits>;

/** A list of words as rows, which are selected, pointed at and walked like the text. */
export function markList(context: TextContext, label: string, name = "nbsal-ranking") {
  const { get, set, on, signal } = context;
  const hover = hoverSender(context);
  let rows: number[][] = []; // tokens
  const choose = (row: number) => {
    const tokens = rows[row];
    const selected = JSON.stringify(get("selection")) === JSON.stringify(tokens);
    set({ selection: selected ? [] : tokens });
  };
  const list = rowList(signal, label, name, {
    choose,
    point: (row) => hover(row === null ? null : rows[row][0]),
  });
  const drawState = () => {
    const selection = new Set(get("selection"));
    list.select((row) => rows[row].some((i) => selection.has(i)));
    for (const [row, tokens] of rows.entries())
      list.node.children[row]?.classList.toggle("nbsal-hover", tokens.includes(get("hover") ?? -1));
  };
  on(["selection", "hover"], drawState);
  return {
    list: list.node,
    /** Set the zero that bars of such values share; return where a value lies, as a share of the width. */
    axis(values: number[]) {
      const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
      const at = (value: number) => (value - low) / (high - low || 1);
      list.node.style.setProperty("--zero", percent(at(0)));
      return at;
    },
    /** Draw a row for the tokens of each word from the elements in it. */
    draw(tokens: number[][], cells: (row: number) => Node[]) {
      rows = tokens;
      list.draw(rows.length, cells);
      drawState();
    },
  };
}

export function ranking(context: TextContext) {
  const words = markList(context, "Strongest words");
  const { node, heading, note } = panel("nbsal-evidence", words.list);
  return {
    node,
    /** @param alone what hiding a word does, of those that were hidden */
    draw({ heading: title = "Strongest words", power, rows }: RankedList, unitName: string, alone: Statement["alone"]) {
      heading.textContent = title;
      const effects = new Map(alone.map(([tokens, effect]) => [String(tokens), effect]));
      words.list.classList.toggle("nbsal-tested", alone.length > 0);
      note.textContent = [unitName, power].filter(Boolean).join(" \u00b7 ");
      const at = words.axis(rows.map(({ share }) => share));
      words.draw(
        rows.map(({ tokens }) => tokens),
        (row) => bar(rows[row], at, effects.get(String(rows[row].tokens))),
      );
    },
  };
}

function bar({ name, aside, number, share }: RankedRow, at: (share: number) => number, effect?: Phrase) {
  const line = h("i", {
    class: share < 0 ? "nbsal-against" : "",
    "--from": percent(Math.min(at(0), at(share))),
    "--length": percent(Math.abs(at(share) - at(0))),
  });
  const [before, text, after] = name;
  const quiet = aside && h("span", { class: "nbsal-quiet" }, aside);
  const word = h("b", { title: name.join("") + aside }, ...nameNodes({ before, text, after }), quiet);
  const without = effect ? [h("span", { class: "nbsal-without" }, ...phraseNodes([effect]))] : [];
  return [word, line, h("span", {}, number), ...without];
}
