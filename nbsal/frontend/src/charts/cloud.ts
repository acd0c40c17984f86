// The words of one class as a cloud, the strongest first and largest, or as a list: chosen by mouse or by keys.

import { rowList } from "../controls/row-list";
import type { Context } from "../page/context";
import type { Cloud, CloudsTraits, Word } from "../page/corpus-traits";
import { h, panel, percent, sanitize } from "../page/dom";

export interface CloudReadout {
  say(parts: (Node | string)[] | null): void;
}

export function cloudOf(context: Context<CloudsTraits>, cloud: Cloud, readout: CloudReadout, signal: AbortSignal) {
  const { get, set, live } = context;
  const { label, words, note, empty, hue } = cloud;
  const describe = (row: number | null) =>
    readout.say(row === null ? null : [h("b", {}, words[row].word), words[row].line]);
  const isPicked = (row: number) => JSON.stringify(get("picked")) === JSON.stringify([label, words[row].word]);
  const choose = (row: number) => {
    if (live) set({ picked: isPicked(row) ? null : [label, words[row].word] });
    list.activate(row);
    describe(row);
  };
  const list = rowList(signal, `Words of ${label}`, "nbsal-words", { choose, point: describe, walk: describe });
  list.node.addEventListener("blur", () => describe(null), { signal });
  list.draw(words.length, (row) => cells(words[row]));
  const section = panel("nbsal-cloud", words.length ? list.node : h("p", { class: "nbsal-quiet" }, empty));
  section.heading.textContent = sanitize(label);
  section.note.textContent = sanitize(note);
  section.node.style.setProperty("--hue", hue === null ? "var(--nbsal-ink)" : `var(--nbsal-class-${hue})`);
  return {
    node: section.node,
    drawPicked: () => list.select(isPicked),
    drawForm() {
      for (const look of ["nbsal-ranking", "nbsal-listed"]) list.node.classList.toggle(look, get("form") === "list");
    },
  };
}

function cells({ word, share, state, shared, cells }: Word) {
  const look = `nbsal-word-${state}${shared ? " nbsal-shared" : ""}`;
  const name = h("b", { class: look, title: word, "--share": share }, word);
  return [name, h("i", { "--from": "0%", "--length": percent(share) }), ...cells.map((cell) => h("span", {}, cell))];
}
