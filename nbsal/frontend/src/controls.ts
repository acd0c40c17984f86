// Labelled inputs, each bound to one trait. In a saved page those that need Python are disabled.

import type { ColourScale } from "./colour";
import { type Binding, bind, type Context } from "./context";
import { debounce, h, stopPropagation, throttle } from "./dom";
import type { Level, Scale, ShadedTraits, Text } from "./traits";

interface Option<Value> {
  value: Value;
  name: string;
  group?: string;
}

/** The traits that `shadingControls` sets. */
export const SHADING: (keyof ShadedTraits)[] = ["level", "signed", "gamma", "clip"];
const SEND_INTERVAL = 50; // ms between two messages of one control
const TYPING_DELAY = 300; // ms without a key after which typed text is explained

/** A select whose options may change; a value that is none of them is listed too. */
export function choice<Value>(
  { name, get, set, mirror, live, signal }: Binding<Value>,
  label: string,
  options: () => Option<Value>[],
  offline = false, // whether it works without Python
) {
  let listed: Option<Value>[] = [];
  const onChange = (): void => set(listed[input.selectedIndex].value);
  const input = h("select", { "data-trait": name, disabled: !live && !offline, signal, change: onChange });
  const draw = () => {
    const value = get();
    const isCurrent = (option: Option<Value>) => JSON.stringify(option.value) === JSON.stringify(value);
    listed = options();
    if (!listed.some(isCurrent)) listed = [...listed, { value, name: valueName(value) }];
    input.replaceChildren(...grouped(listed));
    input.selectedIndex = listed.findIndex(isCurrent);
  };
  mirror(draw);
  return h("label", {}, label, input);
}

function grouped(options: Option<unknown>[]) {
  const elements: HTMLElement[] = [];
  for (const { name, group } of options) {
    const option = h("option", {}, name);
    const last = elements.at(-1);
    if (!group) elements.push(option);
    else if (last instanceof HTMLOptGroupElement && last.label === group) last.append(option);
    else elements.push(h("optgroup", { label: group }, option));
  }
  return elements;
}

/** A trait's value in words: a contrast of classes as a difference. */
function valueName(value: unknown) {
  if (value && typeof value === "object" && "contrast" in value) return (value.contrast as string[]).join(" \u2212 ");
  return Array.isArray(value) ? value.join(", ") : String(value);
}

interface Range {
  min: number;
  max: number;
  step: number;
  title?: string;
  /** Whether it works without Python. */
  offline?: boolean;
}

/** A slider with its value beside it. */
export function slider(
  { name, get, set, mirror, live, signal }: Binding<number> | Binding<number | null>,
  label: string,
  { min, max, step, title, offline = false }: Range,
) {
  const output = h("output");
  const send = throttle(set, SEND_INTERVAL, signal);
  const onInput = () => {
    output.textContent = input.value;
    send(input.valueAsNumber);
  };
  const disabled = !live && !offline;
  const input = h("input", { type: "range", min, max, step, "data-trait": name, disabled, signal, input: onInput });
  const draw = () => {
    const value = get();
    input.value = String(value ?? min);
    output.textContent = String(value ?? "");
  };
  mirror(draw);
  return h("label", { title }, label, input, output);
}

/** A whole number; an empty box stands for null, "all". */
export function optionalNumber(binding: Binding<number | null>, label: string, title: string) {
  const { name, get, set, mirror, live, signal } = binding;
  const onChange = () => {
    set(input.value && input.valueAsNumber >= 1 ? Math.round(input.valueAsNumber) : null);
    draw(); // removes an invalid number
  };
  const input = h("input", {
    type: "number",
    min: 1,
    placeholder: "all",
    "data-trait": name,
    disabled: !live,
    signal,
    change: onChange,
    keydown: stopPropagation,
  });
  const draw = () => {
    input.value = String(get() ?? "");
  };
  mirror(draw);
  return h("label", { title }, label, input);
}

/** A check box. */
export function toggle<Value>(
  { name, get, set, mirror, signal }: Binding<Value>,
  label: string,
  off: Value,
  on: Value,
  title?: string,
) {
  const onChange = (): void => set(input.checked ? on : off);
  const input = h("input", { type: "checkbox", "data-trait": name, signal, change: onChange });
  mirror(() => {
    input.checked = get() === on;
  });
  return h("label", { title }, input, label);
}

/** An editor of the text or pair, which is explained when typing pauses, or at once on Ctrl+Enter. */
export function textEditor({ get, set, mirror, live, signal }: Binding<Text>) {
  const node = h("div", { class: "nbsal-editor" });
  let areas: HTMLTextAreaElement[] = [];
  const send = () => set(areas.length > 1 ? [areas[0].value, areas[1].value] : areas[0].value);
  const onInput = debounce(send, TYPING_DELAY, signal);
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  };
  const textArea = (label: string) => {
    const properties = { rows: 1, "aria-label": label, spellcheck: "false", disabled: !live };
    return h("textarea", { ...properties, signal, input: onInput, keydown: onKeyDown });
  };
  const draw = () => {
    const parts = [get()].flat();
    if (areas.length !== parts.length) {
      areas = (parts.length > 1 ? ["First text", "Second text"] : ["Text"]).map(textArea);
      node.replaceChildren(...areas);
    }
    for (const [i, area] of areas.entries()) {
      if (area.value !== parts[i] && !area.matches(":focus")) area.value = parts[i];
    }
  };
  mirror(draw);
  return node;
}

const LEVEL_TITLE = "Add up the scores of each word's tokens";
const SIGNED_TITLE = "Also colour evidence against the target";

/** How scores are coloured: by word or token, with which signs, gamma and clip. */
export const shadingControls = (context: Context<ShadedTraits>) => [
  toggle<Level>(bind(context, "level"), "Group by word", "token", "word", LEVEL_TITLE),
  toggle<boolean>(bind(context, "signed"), "Show negative scores", false, true, SIGNED_TITLE),
  slider(bind(context, "gamma"), "Gamma", {
    min: 0.2,
    max: 3,
    step: 0.1,
    offline: true,
    title: "Values below 1 make small scores easier to see",
  }),
  slider(bind(context, "clip"), "Clip", {
    min: 0.05,
    max: 1,
    step: 0.05,
    offline: true,
    title: "Scores of at least this share of the largest score get full colour",
  }),
];

/** Whether each row has a colour scale of its own. */
export const scaleChoice = (scale: Binding<Scale>, separate: string, shared: string) =>
  choice(
    scale,
    "Colour scale",
    () => [
      { value: "own", name: separate },
      { value: "shared", name: shared },
    ],
    true,
  );

/** The colour scale that the shading controls set. */
export const colourScale = ({ get }: Pick<Context<ShadedTraits>, "get">): ColourScale => ({
  signed: get("signed"),
  gamma: get("gamma"),
  clip: get("clip"),
});
