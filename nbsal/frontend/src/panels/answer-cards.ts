// The sources of an answer as cards: the text shaded by what it adds, its share, and a button that strikes it out.

import type { AnswersTraits, SourceCard } from "../page/answer-traits";
import type { Context } from "../page/context";
import { consume, h, link } from "../page/dom";
import type { ExplanationTraits } from "../page/traits";
import type { ColourScale } from "../text/colour";
import { largestOf, type Mark, totals } from "../text/marks";
import type { RankedWord, Readout } from "../text/readout";
import { type ScoredText, scoredText } from "../text/scored-text";
import { type AnswerData, answerMarks } from "./answer-data";

const UNREAD: Partial<Record<SourceCard["status"], string>> = {
  "not read": "The chat template leaves this out, so the model does not read it.",
  "struck out": "Struck out: this reply was written without it.",
};

const BY_WORD = "word by word";

/** Describe a word of a source, or several. */
export type Describe = (words: RankedWord[], source: SourceCard) => void;

type Struck = AnswersTraits["struck"];

/** A view of the context in which a text's selection is that of the sources. */
export function sourceContext(context: Context<AnswersTraits>): Context<ExplanationTraits> {
  const { get, set, on } = context;
  const rename = (names: string[]) => names.map((name) => (name === "selection" ? "source_selection" : name));
  return {
    ...context,
    get: (name: string) => get((name === "selection" ? "source_selection" : name) as keyof AnswersTraits),
    set: (traits: Partial<ExplanationTraits>) => {
      if (!traits.selection) return set(traits as Partial<AnswersTraits>);
      const cleared = get("selection").length ? { selection: [] } : {};
      set({ source_selection: traits.selection, ...cleared });
    },
    on: (names: string[], call: () => void) => on(rename(names) as (keyof AnswersTraits & string)[], call),
  } as unknown as Context<ExplanationTraits>;
}

/** The tokens of what is struck out. */
export function struckTokens({ tokens, reply, sources }: AnswerData, struck: Struck): Set<number> {
  const found = new Set<number>();
  for (const [i, { part, special }] of tokens.slice(0, reply.start).entries()) {
    if (special) continue;
    const sentence = sources[part].sentences.filter((start) => start <= i).length - 1;
    const isOut = struck.some((entry) =>
      typeof entry === "number" ? entry === part : entry[0] === part && entry[1] === sentence,
    );
    if (isOut) found.add(i);
  }
  return found;
}

export function sourceCards(context: Context<AnswersTraits>, describe: Describe) {
  const { get, set, live, signal } = context;
  const mapped = sourceContext(context);
  const node = h("div", { class: "nbsal-sources" });
  let cards: ReturnType<typeof sourceCard>[] = [];
  let data: AnswerData | null = null;

  const strike = (source: number) => {
    const struck = get("struck");
    const others = struck.filter((entry) => [entry].flat()[0] !== source);
    if (others.length < struck.length) return set({ struck: others });
    set({ struck: [...struck, ...sentencesToStrike(source)] });
  };
  /** The selected sentences where sentences are shaded as one, else the whole source. */
  const sentencesToStrike = (source: number): Struck => {
    const starts = data?.sources[source].sentences ?? [];
    const chosen = get("source_selection").filter((i) => data?.tokens[i]?.part === source);
    if (get("level") !== "sentence" || !chosen.length) return [source];
    const numbers = new Set(chosen.map((i) => starts.filter((start) => start <= i).length - 1));
    return numbers.size === starts.length ? [source] : [...numbers].map((number) => [source, number]);
  };
  function sourceCard(source: SourceCard, number: number) {
    const readout = {
      draw: (words: RankedWord[]) => describe(words, source),
      setHint() {},
    } as unknown as Readout;
    const text: ScoredText = scoredText(mapped, `${source.label}, ${BY_WORD}`, readout);
    const meter = h("i", { class: "nbsal-meter" });
    const [share, drop] = [h("span", { class: "nbsal-score" }), h("span", { class: "nbsal-drop" })];
    const role = h("span", { class: "nbsal-badge", hidden: true });
    const button = link(signal, "", () => strike(number));
    button.disabled = !live;
    const onKeyDown = (event: KeyboardEvent) => {
      if (!["Delete", "Backspace"].includes(event.key) || !live || button.inert) return;
      strike(number);
      consume(event);
    };
    text.node.addEventListener("keydown", onKeyDown, { signal });
    const unread = UNREAD[source.status];
    const isRead = !unread;
    const head = h(
      "div",
      { class: "nbsal-source-head" },
      h("b", {}, source.label),
      h("span", { class: "nbsal-source-title", dir: "auto" }, source.title),
      role,
      h("span", { class: "nbsal-grow" }),
      ...(isRead ? [drop, meter, share, button] : []),
    );
    const box = h(
      "section",
      {
        class: "nbsal-source",
        "aria-label": source.label,
        role: "group",
        "data-source": number,
        hidden: !data?.parts[number], // a message that only calls tools
      },
      head,
      isRead
        ? h("div", { class: "nbsal-page" }, text.node)
        : h("div", { class: "nbsal-page nbsal-text nbsal-quiet", dir: "auto" }, data?.parts[number] ?? ""),
      unread && h("p", { class: "nbsal-quiet" }, unread),
    );
    return { box, head, text, meter, share, drop, button, role, marks: [] as Mark[], hidden: "" };
  }

  return {
    node,
    /** Lay out the texts; those of the same sources keep their cards. */
    layOut(next: AnswerData) {
      data = next;
      const same = JSON.stringify(next.sources.map(({ label, title, status }) => [label, title, status]));
      if (node.dataset.sources !== same) {
        node.dataset.sources = same;
        cards = next.sources.map(sourceCard);
        node.replaceChildren(...cards.map(({ box }) => box));
      }
      for (const [number, card] of cards.entries()) {
        card.marks = answerMarks(next, number, get("level"));
        card.hidden = "";
        card.text.node.setAttribute("aria-busy", String(!card.marks.length)); // while there are no words to choose
        card.text.layOut({ marks: card.marks, parts: [next.parts[number]], answer: null });
        card.box.classList.toggle("nbsal-long", card.text.long());
      }
    },
    /** The largest score of a part that is shaded as one, and whether any is negative. */
    extremes(scores: ArrayLike<number>): [number, boolean] {
      const sums = cards.flatMap(({ marks }) => totals(marks, scores));
      return [largestOf(sums), sums.some((sum) => sum < 0)];
    },
    paint(scores: ArrayLike<number>, scale: ColourScale, largest: number) {
      for (const { text } of cards) text.paint(scores, scale, largest || 1);
    },
    /** Fill in the shares of the scores, and what leaving out each source changes. */
    drawShares(shares: number[], texts: string[], changes: Map<number, [string, string]>, struck: Struck) {
      for (const [number, { box, head, meter, share, drop, button }] of cards.entries()) {
        const [value, name] = [shares[number], data?.sources[number].label ?? ""];
        const isStruck = struck.some((entry) => [entry].flat()[0] === number);
        meter.style.setProperty("--p", `${Math.round(100 * Math.abs(value))}%`);
        meter.classList.toggle("nbsal-against", value < 0);
        share.textContent = texts[number] ?? "";
        share.title = "Share of the scores";
        const [words, logs] = changes.get(number) ?? ["", ""];
        drop.textContent = words;
        head.title = logs;
        box.classList.toggle("nbsal-struck", isStruck || data?.sources[number].status === "struck out");
        const sentence = !isStruck && typeof sentencesToStrike(number)[0] !== "number";
        button.textContent = isStruck ? "Put back" : sentence ? "Strike out sentence" : "Strike out";
        button.setAttribute("aria-pressed", String(isStruck));
        button.setAttribute("aria-label", `${button.textContent}: ${name}`);
      }
    },
    /** Say what some sources are to the citations that are chosen. */
    markRoles(roles: Map<number, string>) {
      for (const [number, { box, role }] of cards.entries()) {
        role.textContent = roles.get(number) ?? "";
        role.hidden = !roles.has(number);
        box.classList.toggle("nbsal-linked", roles.has(number));
      }
    },
    /** Hatch and strike the words of hidden tokens. */
    strikeWords(hidden: Set<number>) {
      for (const card of cards) {
        const gone = card.marks.map(({ tokens }) => tokens.some((i) => hidden.has(i)));
        const state = `${gone}`;
        if (state === card.hidden) continue;
        card.hidden = state;
        for (const mark of card.text.node.querySelectorAll<HTMLElement>(".nbsal-mark"))
          mark.classList.toggle("nbsal-hidden", gone[Number(mark.dataset.mark)]);
      }
    },
    /** The words of all sources with their scores, to find the strongest; a whole source has a name. */
    words: () =>
      cards.flatMap(({ text }, number) =>
        text.words().map((word) => ({
          ...word,
          name: word.text.trim() === data?.parts[number].trim() ? data.sources[number].name : "",
        })),
      ),
  };
}
