// Whether what is drawn still holds: with each result, Python says for which values of the controls it is.

import type { Model } from "./context";
import type { ViewTraits } from "./traits";

export function freshness({ get }: Pick<Model<ViewTraits>, "get">) {
  let unsent = false; // whether a text is typed that was not sent to Python yet
  const holdsFor = (name: string) => isSame(get("_inputs")[name], get(name as keyof ViewTraits));
  return {
    setUnsent(now: boolean) {
      unsent = now;
    },
    /** Whether the result is of an older text than the one that is typed. */
    isOlder: () => get("_live") && (unsent || ("text" in get("_inputs") && !holdsFor("text"))),
    /** Whether any control has changed since the result was requested. */
    isOutdated: () => get("_live") && (unsent || !Object.keys(get("_inputs")).every(holdsFor)),
  };
}

/** What is drawn for every result. One of an older text is held back, in case that text is typed again. */
export function resultDrawing(isOlder: () => boolean) {
  const draws: (() => void)[] = [];
  let heldBack = false;
  const drawAll = () => {
    heldBack = isOlder();
    if (!heldBack) for (const draw of draws) draw();
  };
  return {
    add(draw: () => void) {
      draws.push(draw);
    },
    drawAll,
    release() {
      if (heldBack) drawAll();
    },
  };
}

const isSame = (a: unknown, b: unknown) => a === b || JSON.stringify(a) === JSON.stringify(b);
