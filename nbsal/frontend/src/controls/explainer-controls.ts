// The controls of an explainer: method, layer, the text and the selection as a target, display settings, saving.

import type { Context } from "../page/context";
import { h, stopPropagation } from "../page/dom";
import type { ExplainerTraits } from "../page/traits";
import { chosenMethod } from "./method-lists";
import { methodPicker } from "./method-picker";
import type { Side } from "./side";

const UNUSED = "Only decoded methods use it.";
const TOP_TITLE = "Only the likeliest tokens of each position count. Leave empty for all.";

/** The method and its layer. */
export const methodControls = (side: Side) => [methodPicker(side), layerStepper(side)];

/** One layer up or down; layer 0 is the embeddings. */
export function layerStepper(side: Side, always = false) {
  const { method, layer, choices } = side;
  const { live, signal } = layer;
  const depth = () => choices.get().depth;
  const move = (step: number) => () => layer.set(Math.max(0, Math.min(depth(), (layer.get() ?? 0) + step)));
  const down = h("button", { "aria-label": "Previous layer", signal, click: move(-1) }, "\u2212");
  const up = h("button", { "aria-label": "Next layer", signal, click: move(1) }, "+");
  const output = h("output", { "data-trait": layer.name });
  const node = h(
    "span",
    { class: "nbsal-stepper nbsal-needs-python", role: "group", "aria-label": "Layer" },
    down,
    output,
    up,
  );
  const draw = () => {
    const at = layer.get();
    node.hidden = at === null || !(always || (live && chosenMethod(side)?.layered));
    output.textContent = at === 0 ? "layer 0: embeddings" : `layer ${at} of ${depth()}`;
    node.title = at ? `Hidden state ${at}, the output of block ${at - 1}` : "Hidden state 0, before the first block";
    down.disabled = at === 0;
    up.disabled = at === depth();
  };
  for (const each of [method, layer, choices]) each.mirror(draw);
  return node;
}

/** How many of the likeliest tokens decode a position, as a display setting. */
export function topSetting(side: Side) {
  const { tau } = side;
  const onChange = () => {
    tau.set(input.value && input.valueAsNumber >= 1 ? Math.round(input.valueAsNumber) : null);
    draw(); // removes an invalid number
  };
  const input = h("input", {
    class: "nbsal-needs-python",
    type: "number",
    min: 1,
    placeholder: "all",
    "aria-label": "Decode from the top tokens",
    "data-trait": tau.name,
    signal: tau.signal,
    change: onChange,
    keydown: stopPropagation,
  });
  const draw = () => {
    input.value = String(tau.get() ?? "");
    input.disabled = !tau.live || !chosenMethod(side)?.decodes;
    input.title = tau.live && input.disabled ? UNUSED : "";
  };
  for (const each of [tau, side.method, side.choices]) each.mirror(draw);
  return ["Decode from the top", input, h("small", {}, TOP_TITLE)];
}

/** A button that explains the selected span or token, for models that decide about such. */
export function selectionButton({ get, mirror, live, signal }: Context<ExplainerTraits>, { target, choices }: Side) {
  const { task } = choices.get();
  if (!live || !["span", "token"].includes(task)) return [];
  const onClick = () => {
    const selection = get("selection");
    target.set([selection[0], task === "span" ? selection[selection.length - 1] : null]);
  };
  const words = task === "span" ? "Explain this span" : "Explain this word\u2019s label";
  const button = h("button", { class: "nbsal-button nbsal-needs-python", signal, click: onClick }, words);
  mirror(["selection"], () => {
    button.disabled = !get("selection").length;
  });
  return [button];
}
