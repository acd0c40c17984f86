// One explainer of a view: Compare has two, the other views one.

import { type Binding, bind, type Context } from "../page/context";
import type { Choices, CompareTraits, ExplainerTraits, Target } from "../page/traits";

/** The traits of one explainer, and how to ask for more. */
export interface Side extends Pick<Context<ExplainerTraits>, "ask" | "fail"> {
  method: Binding<string>;
  layer: Binding<number | null>;
  target: Binding<Target>;
  tau: Binding<number | null>;
  choices: Binding<Choices>;
}

export const firstSide = (context: Context<ExplainerTraits>): Side => ({
  ask: context.ask,
  fail: context.fail,
  method: bind(context, "method"),
  layer: bind(context, "layer"),
  target: bind(context, "target"),
  tau: bind(context, "tau"),
  choices: bind(context, "_choices"),
});

export const secondSide = (context: Context<CompareTraits>): Side => ({
  ask: context.ask,
  fail: context.fail,
  method: bind(context, "other_method"),
  layer: bind(context, "other_layer"),
  target: bind(context, "other_target"),
  tau: bind(context, "other_tau"),
  choices: bind(context, "_other_choices"),
});
