// Undo in the page: the values that some traits had before each of the last changes, and a button that restores them.

import type { Context } from "../page/context";
import { consume, h } from "../page/dom";
import type { ViewTraits } from "../page/traits";

/** What Undo takes back in views of one explained text. */
export const EXPLAINED = ["text", "method", "layer", "target", "tau"] as const;
const STEPS = 20;
const SAME_CHANGE = 1000; // ms within which changes of a text are one step

/** A list of steps, each the values before a change. */
export function history<State extends object>(limit = STEPS, sameChange = SAME_CHANGE) {
  const steps: { before: Partial<State>; at: number }[] = [];
  return {
    /** Record the values before a change; changes of one `merged` trait in a row are one step. */
    record(before: Partial<State>, at: number, merged?: keyof State) {
      const last = steps.at(-1);
      const keys = Object.keys(before);
      const continues = last && merged !== undefined && keys.length === 1 && merged in before && merged in last.before;
      if (continues && at - last.at < sameChange) {
        last.at = at;
        return;
      }
      steps.push({ before, at });
      if (steps.length > limit) steps.shift();
    },
    /** Take the last step back: the values to restore, or null. */
    pop: () => steps.pop()?.before ?? null,
    clear: () => steps.splice(0),
    size: () => steps.length,
  };
}

/** A button, and Ctrl or Cmd with Z outside of editors, that take back the last change of any of these traits. */
export const undo = <Traits extends ViewTraits>(context: Context<Traits>, names: readonly (keyof Traits & string)[]) =>
  undoable(context, names).button;

/** The button of Undo, and a function that forgets all steps. */
export function undoable<Traits extends ViewTraits>(
  context: Context<Traits>,
  names: readonly (keyof Traits & string)[],
) {
  const { get, set, on, root, signal, live } = context;
  const past = history<Traits>();
  const current = () => Object.fromEntries(names.map((name) => [name, get(name)])) as Partial<Traits>;
  let latest = current();
  let scheduled = false;

  /** Without a step the button is not there; one that has just taken back the last step keeps the focus until it leaves. */
  const draw = () => {
    const idle = !past.size() && !button.matches(":focus");
    button.classList.toggle("nbsal-invisible", idle);
    button.disabled = idle;
  };
  const drawLater = () => setTimeout(draw); // once the focus has come to what the reader presses
  /** What changes together, such as the settings of a switch, is one step. */
  const recordChange = () => {
    scheduled = false;
    const now = current();
    const changed = names.filter((name) => JSON.stringify(now[name]) !== JSON.stringify(latest[name]));
    if (!changed.length) return;
    past.record(
      Object.fromEntries(changed.map((name) => [name, latest[name]])) as Partial<Traits>,
      performance.now(),
      "text" as keyof Traits,
    );
    latest = now;
    draw();
  };
  const restore = () => {
    recordChange();
    const before = past.pop();
    if (!before) return;
    latest = { ...latest, ...before };
    set(before);
    draw();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const editing = event.target instanceof Element && event.target.matches("textarea, input:not([type=range])");
    if (event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey || editing) return;
    if (button.inert) return;
    restore();
    consume(event);
  };
  const button = h(
    "button",
    { class: "nbsal-button nbsal-plain nbsal-needs-python", signal, click: restore, blur: drawLater },
    "Undo",
  );
  if (live) {
    on([...names], () => {
      if (scheduled) return;
      scheduled = true;
      queueMicrotask(recordChange);
    });
    root.addEventListener("keydown", onKeyDown, { signal });
  }
  button.hidden = !live;
  draw();
  return {
    button,
    forget() {
      past.clear();
      draw();
    },
  };
}
