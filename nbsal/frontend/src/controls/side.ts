// One explainer of a view: Compare has two, the other views one.

import { type Binding, bind, type Context } from "../page/context";
import type { Choices, CompareTraits, ExplainerTraits, Target } from "../page/traits";

/** The traits of one explainer, and how to ask for more. */
export interface Side extends Pick<Context<ExplainerTraits>, "ask"> {
  method: Binding<string>;
  layer: Binding<number | null>;
  target: Binding<Target>;
  tau: Binding<number | null>;
  choices: Binding<Choices>;
}

const sideOf = (
  context: Context<CompareTraits>,
  prefix: "" | "other_",
  choices: "_choices" | "_other_choices",
): Side => ({
  ask: context.ask,
  method: bind(context, `${prefix}method`),
  layer: bind(context, `${prefix}layer`),
  target: bind(context, `${prefix}target`),
  tau: bind(context, `${prefix}tau`),
  choices: bind(context, choices),
});

export const firstSide = (context: Context<ExplainerTraits>) =>
  sideOf(context as unknown as Context<CompareTraits>, "", "_choices");

export const secondSide = (context: Context<CompareTraits>) => sideOf(context, "other_", "_other_choices");
