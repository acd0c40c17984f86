// The display settings, folded away: the unit, the signs, and how strongly scores are coloured. No number changes.

import { type Binding, bind, type Context } from "../page/context";
import { h, stopPropagation, throttle } from "../page/dom";
import type { Level, Scale, ShadedTraits, ViewTraits } from "../page/traits";
import type { ColourScale } from "../text/colour";
import { popover } from "./popover";

type Shading = ViewTraits & Pick<ShadedTraits, "level" | "signed" | "gamma" | "clip">;

/** The traits of the display settings. */
export const SHADING = ["level", "signed", "gamma", "clip"] as const;
export const UNITS: [Level, string][] = [
  ["word", "Words"],
  ["token", "Tokens"],
];
const STANDARD = { level: "word", signed: true, gamma: 1, clip: 1 } as const;
const SEND_INTERVAL = 50; // ms between two messages of one slider
const STRONGEST_GAMMA = 3;
const FAINT_NOTE = "Further right, small scores become easier to see.";
const CLIP_NOTE = "100 % of the strongest word. Colours change, numbers never do.";

export type Setting = (Node | string)[];

/** A choice of a few values, side by side. */
export function segments<Value extends string | number | boolean | null>(
  { name, get, set, mirror, signal }: Binding<Value>,
  label: string,
  values: [Value, string][],
) {
  const buttons = values.map(([value, words]) => h("button", { signal, click: () => set(value) }, words));
  mirror(() => {
    for (const [i, [value]] of values.entries()) buttons[i].setAttribute("aria-pressed", String(get() === value));
  });
  return h("span", { class: "nbsal-segments", role: "group", "aria-label": label, "data-trait": name }, ...buttons);
}

/** A setting with a choice of a few values. */
export const choiceSetting = <Value extends string | boolean>(
  binding: Binding<Value>,
  label: string,
  values: [Value, string][],
): Setting => [label, segments(binding, label, values)];

/** Whether each row has a colour scale of its own. */
export const scaleSetting = (scale: Binding<Scale>, separate: string, shared: string) =>
  choiceSetting(scale, "Scale", [
    ["own", separate],
    ["shared", shared],
  ]);

interface Percent {
  least: number;
  fromValue(value: number): number;
  toValue(percent: number): number;
}

/** A setting with a slider from 0 to 100 whose value stands for that of a trait. */
function percentSetting(
  { name, get, set, mirror, signal }: Binding<number>,
  label: string,
  note: string,
  { least, fromValue, toValue }: Percent,
): Setting {
  const send = throttle((value: number) => set(value), SEND_INTERVAL, signal);
  const onInput = (): void => send(toValue(input.valueAsNumber));
  const properties = { type: "range", min: least, max: 100, "aria-label": label, "data-trait": name };
  const input = h("input", { ...properties, signal, input: onInput, keydown: stopPropagation });
  mirror(() => {
    input.value = String(Math.round(fromValue(get())));
  });
  return [label, input, h("small", {}, note)];
}

const shadingSettings = (context: Context<Shading>): Setting[] => [
  choiceSetting(bind(context, "level"), "Unit", UNITS),
  choiceSetting(bind(context, "signed"), "Show", [
    [true, "For and against"],
    [false, "For only"],
  ]),
  percentSetting(bind(context, "gamma"), "Faint scores", FAINT_NOTE, {
    least: 0,
    fromValue: (gamma) => 50 * (1 - Math.log(gamma) / Math.log(STRONGEST_GAMMA)),
    toValue: (percent) => STRONGEST_GAMMA ** (1 - percent / 50),
  }),
  percentSetting(bind(context, "clip"), "Full colour at", CLIP_NOTE, {
    least: 5,
    fromValue: (clip) => 100 * clip,
    toValue: (percent) => percent / 100,
  }),
];

/** Whether the scores on display speak for and against. */
const isTwoSided = (get: Context<Shading>["get"]) => get("_result").signed !== false;

/** The colour scale that the settings choose. */
export const colourScale = ({ get }: Pick<Context<Shading>, "get">): ColourScale => ({
  signed: get("signed") && isTwoSided(get),
  gamma: get("gamma"),
  clip: get("clip"),
});

export function displayMenu(context: Context<Shading>, more: Setting[] = []) {
  const { get, set, mirror, signal } = context;
  const standard = h("button", { class: "nbsal-link", signal, click: () => set(STANDARD) }, "Back to standard");
  mirror([...SHADING], () => {
    standard.hidden = SHADING.every((name) => get(name) === STANDARD[name]);
  });
  const rows = [...shadingSettings(context), ...more].flatMap(([label, ...controls]) => [
    h("span", {}, label as string),
    ...controls,
  ]);
  const sheet = h("div", {}, h("div", { class: "nbsal-settings" }, ...rows), standard);
  mirror(["_rev"], () => sheet.classList.toggle("nbsal-one-sided", !isTwoSided(get)));
  return popover(signal, ["Display"], sheet, "nbsal-plain", "nbsal-at-end").node;
}
