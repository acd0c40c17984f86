// Citations and fields of a reply, each with its verdict; a choice marks its words and its documents, and the other way.

import { rowList } from "../controls/row-list";
import type { AnswersTraits, SourcedRow } from "../page/answer-traits";
import type { Context } from "../page/context";
import { h, panel } from "../page/dom";
import type { AnswerData } from "./answer-data";
import { fold } from "./fold";

/** @param markRoles says what each source is to the chosen rows */
export function citationsPanel(context: Context<AnswersTraits>, markRoles: (roles: Map<number, string>) => void) {
  const { get, set, on, signal } = context;
  let sources: number[] = []; // of the tokens of the prompt
  const leave = () => set({ selection: [], source_selection: [] });
  const sourcedList = (name: "statements" | "fields", label: string) => {
    let rows: SourcedRow[] = [];
    const choose = (row: number) => {
      const { tokens, positions } = rows[row];
      if (String([get("selection"), "", get("source_selection")]) === String([tokens, "", positions])) leave();
      else set({ selection: tokens, source_selection: positions, rival: null, at: null });
    };
    const list = rowList(signal, label, `nbsal-sourced nbsal-${name}`, { choose, leave });
    return {
      node: list.node,
      draw() {
        const next = get("_citations")[name] ?? [];
        list.node.hidden = !next.length;
        if (JSON.stringify(next) === JSON.stringify(rows)) return; // the keys stay where they are
        rows = next;
        list.draw(rows.length, (row) => drawRow(rows[row]));
      },
      /** Mark the rows of the chosen words, and of a chosen document; return the links of the former. */
      mark(tokens: Set<number>, positions: Set<number>) {
        const documents = new Set([...positions].map((i) => sources[i]));
        const chosen = rows.map(
          (row) => row.tokens.some((i) => tokens.has(i)) || row.positions.some((i) => positions.has(i)),
        );
        const linked = ({ tokens: words, links }: SourcedRow) =>
          words.length > 0 && links.some(([i]) => documents.has(i));
        list.select((row) => chosen[row] || linked(rows[row]));
        return rows.flatMap(({ links }, row) => (chosen[row] ? links : []));
      },
    };
  };
  const lists = [sourcedList("statements", "Citations"), sourcedList("fields", "Fields")];
  const drawChosen = () => {
    const [tokens, positions] = [new Set(get("selection")), new Set(get("source_selection"))];
    const links = lists.flatMap((list) => list.mark(tokens, positions));
    markRoles(new Map(get("panels").includes("citations") ? links : []));
  };
  const { node, heading, note } = panel("nbsal-evidence", ...lists.map((list) => list.node));
  const folded = fold<AnswerData>(context, {
    name: "citations",
    title: "",
    panel: {
      node,
      draw(data) {
        sources = data?.tokens.map(({ part }) => part) ?? [];
        heading.textContent = get("_citations").finding ?? "";
        note.textContent = get("_citations").note ?? "";
        for (const list of lists) list.draw();
      },
    },
    computed: () => Boolean(get("_citations").finding),
    reason: () => [],
  });
  const offer = folded.node.querySelector("h3") as HTMLElement;
  on(["selection", "source_selection", "panels"], drawChosen);
  return {
    node: folded.node,
    draw(data: AnswerData) {
      folded.node.hidden = !Object.keys(get("_citations")).length;
      offer.textContent = get("_citations").offer ?? "";
      folded.draw(data);
      drawChosen();
    },
  };
}

function drawRow({ verdict, words, name, text, mark, reason, numbers }: SourcedRow) {
  const named = h("b", {}, mark);
  return [
    h("span", { class: "nbsal-badge", "data-verdict": verdict }, words),
    h("span", { class: "nbsal-quiet", dir: "auto" }, name),
    h("p", { dir: "auto" }, h("span", {}, text), ...(reason ? [" ", named] : [])),
    reason ? h("p", {}, reason) : named,
    h("span", { class: "nbsal-small" }, numbers),
  ];
}
