// The controls of a bound explainer: method, layer, target, tau.

import { type Binding, bind, type Context } from "./context";
import { choice, optionalNumber, slider } from "./controls";
import { h } from "./dom";
import type { Choices, CompareTraits, ExplainerTraits, Target } from "./traits";

const TAU_TITLE = "Decode with an input token only at positions where it is among the tau most probable; empty: all";

/** The traits of one explainer; Compare has two. */
export interface Side {
  method: Binding<string>;
  layer: Binding<number | null>;
  target: Binding<Target>;
  tau: Binding<number | null>;
  choices: Binding<Choices>;
}

export const firstSide = (context: Context<ExplainerTraits>): Side => ({
  method: bind(context, "method"),
  layer: bind(context, "layer"),
  target: bind(context, "target"),
  tau: bind(context, "tau"),
  choices: bind(context, "_choices"),
});

export const secondSide = (context: Context<CompareTraits>): Side => ({
  method: bind(context, "other_method"),
  layer: bind(context, "other_layer"),
  target: bind(context, "other_target"),
  tau: bind(context, "other_tau"),
  choices: bind(context, "_other_choices"),
});

/** @param layered whether the layer is chosen here */
export function explainerControls(context: Context<ExplainerTraits>, side = firstSide(context), layered = true) {
  const { method, choices } = side;
  const { live } = context;
  const layer = slider(side.layer, "Layer", { min: 0, max: choices.get().depth, step: 1 });
  const tau = optionalNumber(side.tau, "Tau", TAU_TITLE);
  const fit = () => {
    const [, , hasLayer, decodes] = choices.get().methods.find(([name]) => name === method.get()) ?? [];
    layer.hidden = !layered || !live || !hasLayer;
    tau.hidden = !live || !decodes;
  };
  method.mirror(fit);
  const methods = () => choices.get().methods.map(([name, group]) => ({ value: name, name, group }));
  const targets = () => [
    { value: null, name: choices.get().labels.length > 1 ? "Predicted class" : "Prediction" },
    ...choices.get().labels.map((name) => ({ value: name, name })),
  ];
  return [
    choice(method, "Method", methods),
    layer,
    choice(side.target, "Target", targets),
    ...selectionButton(context, side),
    tau,
  ];
}

/** A button that explains the selected span or token, for models that decide about such. */
function selectionButton({ get, mirror, live, signal }: Context<ExplainerTraits>, { target, choices }: Side) {
  const { task } = choices.get();
  if (!live || !["span", "token"].includes(task)) return [];
  const onClick = () => {
    const selection = get("selection");
    target.set([selection[0], task === "span" ? selection[selection.length - 1] : null]);
  };
  const button = h("button", { signal, click: onClick }, "Explain the selection");
  mirror(["selection"], () => {
    button.disabled = !get("selection").length;
  });
  return [button];
}
