// The first sentence of a view, as Python wrote it: pieces that are marked like the text, and how it was checked.

import type { Context } from "../page/context";
import { h, link, percent } from "../page/dom";
import type { Checking, ExplainerTraits, OrEmpty, Phrase, Statement } from "../page/traits";

const TITLE =
  "The percentage is the model\u2019s probability. Scores propose words; hiding them, and as many random words, shows " +
  "whether they matter.";
const TAGS = { class: "strong", for: "em", against: "em", word: "em", struck: "s" } as const;

/** Of a sentence beside which nothing is said. */
export const UNCHECKED = {
  state: "unchecked",
  badge: "",
  evidence_line: "",
  effects: [],
  advice: "",
  alone: [],
} as const;

/** The sentence as elements. */
export const phraseNodes = (phrases: Phrase[]) =>
  phrases.map(([kind, text]) =>
    kind === "text" ? h("span", {}, text) : h(TAGS[kind], { class: `nbsal-word-${kind}` }, text),
  );

/** The sentence, and below it the line that says how it was checked and shows what was measured. */
export function headline({ get, set, on, ask, signal, live, isOlder }: Context<ExplainerTraits>) {
  const sentence = h("p", { class: "nbsal-headline", title: TITLE });
  const start = link(signal, "Check", () => ask("check"));
  const stop = link(signal, "Stop", () => ask("cancel"));
  const hiding = () => get("_choices").hiding;
  const more = link(signal, "", () => (drawn?.advice === "search" ? ask("search") : set({ method: hiding()?.name })));
  const [line, bars] = [h("summary", { tabindex: 0 }), h("div", { class: "nbsal-effects" })];
  const effects = h("details", {}, line, bars);
  const note = h("span");
  const badge = h("span", { class: "nbsal-badge" });
  const check = h("div", { class: "nbsal-check" }, badge, effects, start, more, note, stop);
  let drawn: Statement | null = null;

  const drawCheck = () => {
    const checking: OrEmpty<Checking> = live ? get("_checking") : {}; // nothing starts a check in a saved page
    const { state, passes, note: words = "" } = checking;
    const measured = Boolean(drawn?.effects.length);
    const runs = state === "waiting" || state === "checking";
    check.dataset.state = runs ? "checking" : (drawn?.state ?? "");
    badge.textContent = drawn?.badge ?? "";
    sentence.setAttribute("aria-live", runs ? "off" : "polite"); // read out once it is checked
    effects.hidden = !measured;
    start.hidden = state !== "offered";
    start.textContent = measured ? "Check more words" : "Check";
    start.title = state === "offered" ? words : "";
    const advice = { search: "Search further", rescue: rescue(), "": "" }[drawn?.advice ?? ""];
    more.textContent = live && !runs ? advice : "";
    more.hidden = !more.textContent;
    stop.hidden = state !== "checking";
    const silent = (measured && state !== "failed" && passes !== 0) || (state === "offered" && start.hidden);
    note.textContent = silent ? "" : words; // beside what was measured, only a search and a failure are told
    badge.hidden = !badge.textContent;
    check.hidden = badge.hidden && start.hidden && more.hidden && !note.textContent && !measured;
  };
  /** The name of a press that explains by hiding words, if that is another method than the chosen one. */
  const rescue = () => {
    const other = hiding();
    return other && other.name !== get("method") ? `Explain by ${other.label}` : "";
  };
  const drawEffects = ({ evidence_line, effects: measured }: Statement) => {
    line.textContent = evidence_line;
    bars.replaceChildren(...effectRows(measured));
  };
  const draw = (next: Statement) => {
    drawn = next;
    sentence.replaceChildren(...phraseNodes(drawn.sentence));
    if (drawn.effects.length) drawEffects(drawn); // or the last ones keep their room while the next are measured
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

/** What was measured, as bars. */
export const effectRows = (effects: Statement["effects"]) =>
  effects.flatMap(([name, value, share]) => [
    h("span", {}, name),
    h("i", { "--p": percent(share ?? 0) }),
    h("span", {}, value),
  ]);
