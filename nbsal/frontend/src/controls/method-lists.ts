// Lists of methods by name: Python sends each when a page first needs it, and all views on the page share it.

import type { MethodChoice } from "../page/traits";
import type { Side } from "./side";

const NAME = "nbsal.method-lists";

/** The lists that are on the page. The script of each view is a module of its own, so the page itself holds them. */
export function methodLists() {
  const page = globalThis as unknown as Record<symbol, Map<string, MethodChoice[]>>;
  page[Symbol.for(NAME)] ??= new Map();
  return page[Symbol.for(NAME)];
}

/** What Python says of the chosen method, or until it does the list of methods, if that is on the page. */
export function chosenMethod({ method, choices }: Pick<Side, "method" | "choices">) {
  const { method: chosen, methods } = choices.get();
  return [chosen, ...(methodLists().get(methods) ?? [])].find((entry) => entry?.name === method.get());
}
