// Hides words of the answer on display, one forward pass after the other, unless something newer comes first.

import type { Checking, OrEmpty, Statement } from "../page/traits";
import { type Answered, checkOf } from "./answers";

const FRAME = 17; // ms before each pass, in which what is on display is painted and keys are heard
const SLOW = 150; // ms of hiding from which its progress is shown: for quick checks it would only flicker

export interface Checker {
  /** Check what is said of a row of scores. */
  check(answered: Answered, row: number): void;
  /** End the check that runs, if one does, and show this state; without one, the last state stays. */
  end(state?: OrEmpty<Checking>): void;
}

interface Shown {
  get(name: "_statements"): unknown;
  set(name: string, value: unknown): void;
}

export function checker(model: Shown, without: (parts: string[], hidden: number[]) => Promise<number[]>): Checker {
  let latest = 0;
  const show = (state: OrEmpty<Checking>) => model.set("_checking", state);
  const end = (state?: OrEmpty<Checking>) => {
    latest++;
    if (state) show(state);
  };
  const run = async (answered: Answered, row: number, isLatest: () => boolean) => {
    const { sets, said } = checkOf(answered, row);
    const [start, outcomes] = [performance.now(), [] as number[][]];
    for (const hidden of sets) {
      await new Promise((resolve) => setTimeout(resolve, FRAME));
      if (!isLatest()) return;
      if (performance.now() - start > SLOW) show({ state: "checking", done: outcomes.length, passes: sets.length });
      outcomes.push(await without(answered.parts, hidden));
    }
    if (!isLatest()) return;
    end({});
    const statements = model.get("_statements") as Statement[];
    model.set("_statements", statements.with(row, said(outcomes)));
  };
  return {
    check(answered, row) {
      end({ state: "waiting" });
      const number = latest;
      const isLatest = () => number === latest;
      run(answered, row, isLatest).catch(({ message }) => isLatest() && end({ state: "failed", why: message }));
    },
    end,
  };
}
