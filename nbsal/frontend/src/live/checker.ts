// Hides words of the answer on display, one forward pass after the other, unless something newer comes first.

import type { Checking, OrEmpty, Statement } from "../page/traits";
import { type Answered, checkOf } from "./answers";
import { PASSES } from "./check";

const FRAME = 17; // ms before each pass, in which what is on display is painted and keys are heard
const SLOW = 200; // ms of hiding, before which neither its progress nor an unchecked sentence is shown: they would flicker
const OFFERED: Checking = { state: "offered", passes: PASSES, note: `${PASSES} passes` };

interface Shown {
  get(name: "_statements"): unknown;
  set(name: string, value: unknown): void;
}

export function checker(model: Shown, without: (parts: string[], hidden: number[]) => Promise<number[]>) {
  let latest = 0;
  let unsaid: Statement[] | null = null; // what will be said if the check takes long
  const show = (state: OrEmpty<Checking>) => model.set("_checking", state);
  const say = (statements: Statement[]) => {
    unsaid = null;
    model.set("_statements", statements);
  };
  /** End the check that runs and say what is known; without a state, a newer answer will. */
  const end = (state?: OrEmpty<Checking>) => {
    latest++;
    if (!state) return;
    show(state);
    if (unsaid) say(unsaid);
  };
  const run = async (answered: Answered, row: number, statements: Statement[], isLatest: () => boolean) => {
    const { sets, said } = checkOf(answered, row);
    const [start, outcomes] = [performance.now(), [] as number[][]];
    setTimeout(() => isLatest() && unsaid && say(unsaid), SLOW);
    for (const hidden of sets) {
      await new Promise((resolve) => setTimeout(resolve, FRAME));
      if (!isLatest()) return;
      const [done, passes] = [outcomes.length, sets.length];
      const note = `checking: ${done} of ${passes} passes`;
      if (performance.now() - start > SLOW) show({ state: "checking", passes, note });
      outcomes.push(await without(answered.parts, hidden));
    }
    if (!isLatest()) return;
    unsaid = statements.with(row, said(outcomes));
    end({});
  };
  return {
    end,
    /** Offer the check that was ended. */
    offer: () => end(OFFERED),
    /** Check what is said of a row of scores, if it is `asked` for, or offer that. */
    check(answered: Answered, row: number, asked: boolean, said?: Statement[]) {
      const statements = said ?? unsaid ?? (model.get("_statements") as Statement[]);
      unsaid = statements;
      if (statements[row].state !== "unchecked") return end({});
      if (!asked) return end(OFFERED);
      latest++;
      show({ state: "waiting", note: "checking\u2026" });
      const number = latest;
      const isLatest = () => number === latest;
      run(answered, row, statements, isLatest).catch(
        ({ message }) => isLatest() && end({ state: "failed", note: `could not be checked: ${message}` }),
      );
    },
  };
}
