// The first sentence of a view, as Python wrote it: pieces that are marked like the text, and how it was checked.

import type { Context } from "./context";
import { h } from "./dom";
import { formatPercent } from "./format";
import type { ExplainerTraits, Phrase, Statement } from "./traits";

const TITLE =
  "The percentage is the model\u2019s probability. Scores propose at most five words for the class and two against it; " +
  "hiding them, one by one and together, shows whether they matter, compared with hiding as many random words.";
const CERTAIN = 0.9995;
const CLOSE = 0.001; // probabilities that differ by less are told apart by a second digit
const TAGS = { class: "strong", for: "em", against: "em", struck: "s" } as const;

/** The sentence as elements. */
export const phraseNodes = (phrases: Phrase[]) =>
  phrases.map(([kind, text]) =>
    kind === "text" ? h("span", {}, text) : h(TAGS[kind], { class: `nbsal-word-${kind}` }, text),
  );

/** A probability before and after some change, as percentages of which only the second has its sign. */
export function changeWords(before: number, after: number): [string, string] {
  const close = Math.abs(before - after) < CLOSE;
  const words = (share: number) => (close ? formatPercent(share, 2) : confidence(share));
  return [words(before).replace("\u202f%", ""), words(after)];
}

export const confidence = (probability: number) =>
  probability > CERTAIN ? `over ${formatPercent(0.999)}` : formatPercent(probability);

/** A word as a sentence names it: punctuation has quotation marks. */
export const nameInSentence = (text: string) => (/[\p{L}\p{N}]/u.test(text) ? text : `\u201c${text}\u201d`);

/** The sentence, and below it the line that says how it was checked and shows what was measured. */
export function headline({ get, on, ask, fail, signal, live, isOlder }: Context<ExplainerTraits>) {
  const sentence = h("p", { class: "nbsal-headline", title: TITLE });
  const press = (request: "check" | "cancel") => () => ask(request).catch(({ message }) => fail(message));
  const button = (name: string, request: "check" | "cancel") =>
    h("button", { class: "nbsal-link nbsal-needs-python", signal, click: press(request) }, name);
  const [start, stop] = [button("Check", "check"), button("Stop", "cancel")];
  const [line, bars] = [h("summary", { tabindex: 0 }), h("div", { class: "nbsal-effects" })];
  const effects = h("details", {}, line, bars);
  const note = h("span");
  const check = h("div", { class: "nbsal-check" }, effects, start, note, stop);
  let drawn: Statement | null = null;

  const drawCheck = () => {
    const { state = "", done = 0, passes = 0, seconds = null, why = "" } = get("_checking");
    const measured = Boolean(drawn?.effects.length);
    const runs = state === "waiting" || state === "checking";
    check.dataset.state = runs ? "checking" : (drawn?.state ?? "");
    sentence.setAttribute("aria-live", runs ? "off" : "polite"); // read out once it is checked
    effects.hidden = !measured;
    note.hidden = measured;
    start.hidden = !(live && state === "offered");
    stop.hidden = state !== "checking";
    check.hidden = !measured && !state;
    const cost = `${passes} passes${seconds ? `, about ${seconds.toFixed(0)} s` : ""}`;
    const rest = state === "failed" ? `could not be checked: ${why}` : cost;
    note.textContent = state === "checking" ? `checking: ${done} of ${passes} passes` : runs ? "checking\u2026" : rest;
  };
  const draw = (next: Statement) => {
    drawn = next;
    sentence.replaceChildren(...phraseNodes(drawn.sentence));
    line.textContent = drawn.line;
    bars.replaceChildren(
      ...drawn.effects.flatMap(([name, value, share]) => [h("span", {}, name), bar(share), h("span", {}, value)]),
    );
    drawCheck();
  };
  on(["_checking"], drawCheck);
  return {
    node: h("div", { class: "nbsal-statement" }, sentence, check),
    sentence,
    draw,
    /** Draw whenever a check has ended, unless the text has changed. */
    follow: (current: () => Statement | undefined) =>
      on(["_statements"], () => {
        const next = isOlder() ? undefined : current();
        if (next) draw(next);
      }),
  };
}

function bar(share: number | null) {
  const node = h("i");
  node.style.setProperty("--p", `${100 * (share ?? 0)}%`);
  return node;
}
