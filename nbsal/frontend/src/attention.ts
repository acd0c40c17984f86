// The attention of one head: the text shaded by it, from the selected tokens or averaged over all, and the whole map.

import { FOR, LINEAR, STRONGEST } from "./colour";
import type { Context } from "./context";
import { h, sanitize } from "./dom";
import { type Explanation, layoutCache, specialTokens } from "./explanation";
import { legend } from "./legend";
import { scoredText } from "./scored-text";
import type { HeadsTraits } from "./traits";

const MAP_NOTE = "in the map, rows are queries and columns are keys";

export function attentionPane(context: Context<HeadsTraits>) {
  const { get, on, set, signal } = context;
  const text = scoredText(context, "Attended tokens");
  const layOut = layoutCache(() => get("level"), [text]);
  const colours = legend("Attention weight");
  const title = h("h4", { class: "nbsal-title" });
  let explanation: Explanation | null = null;

  const onClick = (event: MouseEvent) => {
    const { top, height } = canvas.getBoundingClientRect();
    const query = Math.floor(((event.clientY - top) / height) * canvas.height);
    if (explanation && !explanation.tokens[query].special) set({ selection: [query] });
  };
  const canvas = h("canvas", { class: "nbsal-attention", role: "img", signal, click: onClick });
  const side = h("div", { class: "nbsal-attention-text" }, text.node, text.readout, colours.node);
  const node = h("div", {}, title, h("div", { class: "nbsal-attention-pane" }, canvas, side));

  const draw = () => {
    const attention = get("_attention");
    node.hidden = !attention.head || attention.size !== explanation?.tokens.length;
    if (!attention.head || !explanation || node.hidden) return;
    const { head, size, top, map } = attention;
    const { tokens } = explanation;
    const name = head.join(".");
    layOut(explanation);
    const selection = get("selection").filter((i) => i < size);
    const queries = selection.length ? selection : tokens.flatMap((token, i) => (token.special ? [] : [i]));
    const weights = Float64Array.from({ length: size }, (_, key) => {
      const sum = queries.reduce((total, query) => total + map.getUint8(query * size + key), 0);
      return ((sum / queries.length) * top) / 255;
    });
    const { largest } = text.paint(weights);
    colours.draw(largest, LINEAR, false, MAP_NOTE, specialTokens(tokens, weights));
    const source = selection.length
      ? `from ${selection.map((i) => tokens[i].text).join(" ")}`
      : "averaged over all tokens";
    title.textContent = sanitize(`Attention of head ${name}, ${source}`);
    canvas.setAttribute("aria-label", `Attention map of head ${name}, one row for each query token`);
    paintMap(canvas, map, size);
  };
  on(["selection", "level"], draw);
  return {
    node,
    draw(next: Explanation | null) {
      explanation = next;
      draw();
    },
  };
}

function paintMap(canvas: HTMLCanvasElement, map: DataView, size: number) {
  canvas.width = canvas.height = size;
  const drawing = canvas.getContext("2d");
  if (!drawing) return;
  const image = drawing.createImageData(size, size);
  for (let i = 0; i < size * size; i++) image.data.set([...FOR, map.getUint8(i) * STRONGEST], 4 * i);
  drawing.putImageData(image, 0, 0);
}
