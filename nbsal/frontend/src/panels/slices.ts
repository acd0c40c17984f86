// The slices of an audit as bars: the error rate with its interval, and a tick at that of all other texts.

import { rowList } from "../controls/row-list";
import type { Context } from "../page/context";
import type { AuditTraits, Slice } from "../page/corpus-traits";
import { h, panel, percent } from "../page/dom";

export function sliceBars({ get, set, on, live, signal }: Context<AuditTraits>) {
  let slices: Slice[] = [];
  let drawn = "";
  const choose = (row: number) => {
    const { name } = slices[row];
    if (live) set({ part: get("part") === name ? null : name, picked: [], everywhere: false });
  };
  const list = rowList(signal, "Slices", "nbsal-slice-bars", { choose, leave: () => set({ part: null }) });
  const { node, heading, note } = panel("nbsal-slices", list.node);
  const drawChosen = () => list.select((row) => slices[row].name === get("part"));
  on(["part"], drawChosen);
  return {
    node,
    draw() {
      const data = get("_slices");
      node.hidden = !data.rows;
      if (!data.rows) return;
      const key = JSON.stringify(data);
      if (key !== drawn) {
        [slices, drawn] = [data.rows, key];
        heading.textContent = data.heading;
        note.textContent = data.note;
        list.draw(slices.length, (row) => drawSlice(slices[row]));
      }
      drawChosen();
    },
  };
}

function drawSlice({ name, bar, mark, rate, text }: Slice) {
  const [now, low, high, before] = bar.map(percent);
  const line = h("i", { "--now": now, "--low": low, "--high": high, "--before": before }, h("s"), h("u"));
  const words = h("span", { class: "nbsal-quiet" }, mark && h("b", {}, `${mark} `), h("b", {}, rate), ` ${text}`);
  return [h("span", { class: "nbsal-name", title: name, dir: "auto" }, name), line, words];
}
