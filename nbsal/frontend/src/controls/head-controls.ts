// Which heads are on together, the thresholds of what counts as syntax and position, and switching all on.

import { bind, type Context } from "../page/context";
import { h, link, stopPropagation } from "../page/dom";
import type { HeadsTraits } from "../page/traits";
import { popover } from "./popover";

const KINDS: HeadsTraits["kind"][] = ["all", "both", "syntactic", "positional", "none"];
const MASK_LRP_ONLY = "Heads act on Mask-LRP only.";
const THRESHOLD_TITLE = "Share of cases in which the head attends most to that word";

/** The sentence and the button where another method than Mask-LRP explains the text. */
export function methodHint({ set, live, signal }: Context<HeadsTraits>) {
  const button = link(signal, "Use Mask-LRP", () => set({ method: "mask-lrp" }));
  return h("p", { class: "nbsal-hint" }, MASK_LRP_ONLY, live && " \u00b7 ", live && button);
}

/** @param count how many heads are off, of all */
export function headControls(context: Context<HeadsTraits>, count: () => { off: number; total: number }) {
  const { get, set, live, signal } = context;
  const name = h("b");
  const buttons = KINDS.map((kind) => {
    const choose = () => {
      set({ kind, toggled: [] });
      menu.close();
      menu.summary.focus();
    };
    return h("button", { class: "nbsal-button nbsal-plain", "data-kind": kind, signal, click: choose });
  });
  const thresholds = [
    threshold(context, "synt", "Counts as syntax from"),
    threshold(context, "pos", "Counts as position from"),
  ];
  const settings = h("div", { class: "nbsal-settings" }, ...thresholds.flat());
  const sheet = h(
    "div",
    {},
    h("div", { class: "nbsal-kinds", role: "group", "aria-label": "Heads on" }, ...buttons),
    settings,
  );
  const menu = popover(signal, [h("span", { class: "nbsal-quiet" }, "Heads on"), name], sheet);
  const onShortcut = () => set({ kind: count().off ? "all" : "both", toggled: [] });
  const shortcut = h("button", { class: "nbsal-button", signal, click: onShortcut });
  const node = h("div", { class: "nbsal-tools nbsal-head-tools nbsal-needs-python" }, menu.node, shortcut);
  const draw = () => {
    const { named = false, studied = false, kinds = [], labels, toggled } = get("_heads");
    const { off } = count();
    name.textContent = (get("toggled").length ? toggled : labels?.[get("kind")]) ?? "";
    for (const [i, button] of buttons.entries()) {
      button.textContent = labels?.[KINDS[i]] ?? "";
      button.setAttribute("aria-pressed", String(KINDS[i] === get("kind") && !get("toggled").length));
      button.hidden = !named && ["syntactic", "positional"].includes(KINDS[i]);
    }
    settings.hidden = !studied;
    shortcut.textContent = off ? "Switch all on" : (labels?.only ?? "");
    shortcut.hidden = !off && kinds.flat().every((kind) => kind === "none"); // there is no mask
    node.hidden = !live;
  };
  return { node, draw };
}

/** A slider from 0 to 100 % with its value in its label. */
function threshold(context: Context<HeadsTraits>, trait: "synt" | "pos", words: string) {
  const { get, set, mirror, signal } = bind(context, trait);
  const label = h("span");
  const onChange = (): void => set(input.valueAsNumber / 100);
  const onInput = (): void => write(input.valueAsNumber);
  const input = h("input", {
    type: "range",
    min: 0,
    max: 100,
    step: 5,
    "aria-label": words,
    title: THRESHOLD_TITLE,
    "data-trait": trait,
    signal,
    change: onChange,
    input: onInput,
    keydown: stopPropagation,
  });
  const write = (percent: number) => {
    label.textContent = `${words} ${context.get("_heads").thresholds?.[percent] ?? ""}`;
  };
  const draw = () => {
    const percent = Math.round(100 * get());
    input.value = String(percent);
    write(percent);
  };
  mirror(draw);
  context.on(["_rev"], draw);
  return [label, input];
}
