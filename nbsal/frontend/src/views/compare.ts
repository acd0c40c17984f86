// Two explanations of one text beside each other, the strongest words of both, and their difference.

import { badge, pairedDots } from "../charts/paired-dots";
import { choiceSetting, colourScale, displayMenu, type Setting, SHADING, scaleSetting } from "../controls/display";
import { methodControls, selectionButton, topSetting } from "../controls/explainer-controls";
import { outcomes } from "../controls/outcomes";
import { saveMenu } from "../controls/save";
import { firstSide, type Side, secondSide } from "../controls/side";
import { EXPLAINED, undoable } from "../controls/undo";
import { bind, type Context } from "../page/context";
import { consume, h } from "../page/dom";
import { mount } from "../page/mount";
import type { ComparedFindings, CompareTraits, ReadoutWords } from "../page/traits";
import { isBlank, PROMPT } from "../text/blank";
import { textEditor, typing } from "../text/editor";
import { type Explanation, explanationReader } from "../text/explanation";
import { headline } from "../text/headline";
import { legend } from "../text/legend";
import { largestOf, type Mark, marksOf, totals } from "../text/marks";
import { minimap } from "../text/minimap";
import { fill, nameOf, type Readout, readoutLine, scoreWords, sideOf } from "../text/readout";
import { scoredText } from "../text/scored-text";
import { search } from "../text/search";

type CompareContext = Context<CompareTraits>;

const OTHER = ["other_method", "other_layer", "other_target", "other_tau"] as const;

export default /* @__PURE__ */ mount<CompareTraits>("compare", (context: CompareContext) => {
  const { get, main, side, on, mirror } = context;
  const read = explanationReader(context);
  const answer = headline(context);
  const [compared, dots] = [pairOfTexts(context), pairedDots(context)];
  const decision = decisions(context);
  let findings = get("_findings");

  const draw = () => {
    const explanation = read();
    if (!context.isOlder()) findings = get("_findings");
    const [finding, scale] = [findings[get("level")], get("scale")];
    if (!explanation || !finding) return;
    answer.draw(finding.statements[scale]);
    dots.draw(compared.draw(explanation, finding), finding.rows[scale], finding.heading, finding.units[scale]);
    decision.draw(explanation);
  };
  mirror(["text"], () => {
    const blank = isBlank(get("text"));
    if (blank || !get("_tokens").parts) answer.sentence.replaceChildren(blank ? PROMPT : "");
  });
  on(["_rev", "_findings", "scale", "difference", ...SHADING], draw);
  main.append(answer.node, ...compared.nodes, decision.node, toolRow(context, compared.tools));
  side.append(dots.node);
  draw();
});

/** The text as A and as B explains it, each under its method, and where they differ; with one readout for all. */
function pairOfTexts(context: CompareContext) {
  const { get, signal } = context;
  let marks: Mark[] = [];
  let laidOut: unknown[] = [];
  let shares: number[][] = [[], []]; // of each mark, for A and B
  const shareOf = (token: number) => {
    const k = marks.findIndex(({ tokens }) => tokens.includes(token));
    return shares.map((row) => row[k] ?? 0);
  };
  const readout = sharedReadout(get("_readout"), shareOf);
  const labels = ["The text as A explains it", "The text as B explains it", "Where A and B differ"];
  const texts = labels.map((label) => scoredText(context, label, readout));
  const edit = (parts: string[]) => {
    for (const text of texts) text.edit(parts);
  };
  const editor = textEditor(bind(context, "text"), { ...texts[0], edit }, typing(context));
  const pages = [editor.page, ...texts.slice(1).map(({ node }) => h("div", { class: "nbsal-page" }, node))];
  scrollTogether(pages, signal);
  for (const { node } of texts.slice(1)) openWith(node, editor.button, signal);
  const colours = legend();
  const reveal = (k: number) => {
    for (const text of texts) text.reveal(k);
  };
  const maps = pages.slice(0, 2).map(() => minimap(context, (at) => reveal(Math.round(at * (marks.length - 1)))));
  const sides = [firstSide(context), secondSide(context)].map((of, i) =>
    h(
      "div",
      { class: "nbsal-half" },
      h("div", { class: "nbsal-who" }, badge("AB"[i]), ...methodControls(of)),
      h("div", {}, maps[i].node, pages[i]),
    ),
  );
  const difference = h("div", { class: "nbsal-difference", hidden: true }, pages[2], differenceLegend());
  const finder = search(context, { node: texts[0].node, reveal });

  const layOut = (explanation: Explanation) => {
    const level = get("level");
    if (explanation.tokens === laidOut[0] && level === laidOut[1]) return;
    laidOut = [explanation.tokens, level];
    marks = marksOf(explanation.tokens, level);
    for (const text of texts) text.layOut({ marks, parts: explanation.parts, answer: explanation.answer });
    finder.refresh();
  };
  return {
    nodes: [
      h("div", { class: "nbsal-pair" }, ...sides),
      difference,
      h("div", { class: "nbsal-read nbsal-small" }, readout.node, colours.node),
    ],
    tools: [editor.button, finder.node],
    /** Draw both texts; return their words. */
    draw(explanation: Explanation, { units, maxima }: ComparedFindings) {
      layOut(explanation);
      const { rows } = explanation;
      const scale = colourScale(context);
      const scores = rows.map((row) => totals(marks, row));
      const strongest = scores.map(largestOf);
      const largest = get("scale") === "own" ? strongest : strongest.map(() => Math.max(...strongest));
      shares = scores.map((row, i) => row.map((score) => score / (largest[i] || 1)));
      texts[0].paint(rows[0], scale, largest[0]);
      texts[1].paint(rows[1], scale, largest[1]);
      const apart = rows[0].map((score, i) => score / (largest[0] || 1) - rows[1][i] / (largest[1] || 1));
      difference.hidden = !get("difference");
      if (get("difference")) texts[2].paint(apart, { ...scale, signed: true }, 1);
      const negative = shares.flat().some((share) => share < 0);
      colours.draw(scale, negative, [units[get("scale")]]);
      colours.node.title = maxima;
      const long = texts[0].long();
      for (const page of pages) page.classList.toggle("nbsal-scrolls", long);
      for (const [i, map] of maps.entries()) {
        map.node.hidden = !long;
        if (long) map.draw(scores[i], largest[i], scale);
      }
      finder.node.hidden = !long;
      editor.refresh();
      return marks;
    },
  };
}

/** A readout that says what both give the word under the pointer or the selected words. */
function sharedReadout(words: ReadoutWords, shareOf: (token: number) => number[]): Readout {
  const readout = readoutLine(words);
  return {
    ...readout,
    draw(ranked, surroundings) {
      if (!ranked.length) return readout.draw(ranked, surroundings);
      const shares = ranked.map(({ token }) => shareOf(token));
      const sums = [0, 1].map((side) => shares.reduce((sum, share) => sum + share[side], 0));
      const sides = sums.map((share, i) => `${"AB"[i]}: ${sideOf(words, share, 1)}`).join(" \u00b7 ");
      const several = ranked.length > 1 ? `, ${fill(words.words, ranked.length)}` : "";
      readout.node.replaceChildren(nameOf(ranked), several, scoreWords(` \u00b7 ${sides}`));
    },
  };
}

/** The classes: of one model once, of two models or targets for each. */
function decisions(context: CompareContext) {
  const [first, second] = [firstSide(context), secondSide(context)];
  const both: Side = {
    ...first,
    target: { ...first.target, set: (target) => context.set({ target, other_target: target }) },
  };
  const [joint, ...separate] = [both, first, second].map(outcomes);
  const rows = separate.map(({ node }, i) => h("div", { class: "nbsal-who", hidden: true }, badge("AB"[i]), node));
  return {
    node: h("div", { class: "nbsal-decisions" }, joint.node, ...rows),
    draw(explanation: Explanation) {
      const other = context.get("_other");
      if (!other.caption) return;
      joint.draw(explanation);
      separate[0].draw(explanation);
      separate[1].draw(other);
      const same = context.get("_result").same_model === true && explanation.target === other.target;
      joint.node.hidden = !same || !explanation.probabilities.length;
      for (const row of rows) row.hidden = same;
    },
  };
}

function toolRow(context: CompareContext, [editButton, finder]: HTMLElement[]) {
  const { ask, live, signal } = context;
  const { button, forget } = undoable(context, [...EXPLAINED, ...OTHER]);
  /** Earlier steps are of the other side; a second press takes back the first one. */
  const onSwap = async () => (await ask("swap")) && forget();
  const swap = h(
    "button",
    { class: "nbsal-button nbsal-needs-python", hidden: !live, signal, click: onSwap },
    "Swap A and B",
  );
  const tops = [firstSide(context), secondSide(context)].map((of, i): Setting => {
    const [label, ...controls] = topSetting(of);
    return [`${"AB"[i]}: ${label}`, ...controls];
  });
  const settings: Setting[] = [
    scaleSetting(bind(context, "scale"), "Each its own", "Shared"),
    choiceSetting(bind(context, "difference"), "Difference", [
      [false, "Hide"],
      [true, "Show"],
    ]),
    ...tops,
  ];
  return h(
    "div",
    { class: "nbsal-tools" },
    editButton,
    swap,
    ...selectionButton(context, firstSide(context)),
    button,
    finder,
    h("span", { class: "nbsal-grow" }),
    h("span", { class: "nbsal-tools" }, displayMenu(context, settings), saveMenu(context)),
  );
}

const differenceLegend = () =>
  h(
    "span",
    { class: "nbsal-legend" },
    h("span", { class: "nbsal-word-against" }, "B higher"),
    h("i", { class: "nbsal-ramp" }),
    h("span", { class: "nbsal-word-for" }, "A higher"),
  );

/** Edit the text where it is shown a second time, too: by a double click or the key E. */
function openWith(node: HTMLElement, button: HTMLElement, signal: AbortSignal) {
  const open = () => button.click();
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key.toLowerCase() !== "e" || event.ctrlKey || event.metaKey || event.altKey) return;
    open();
    consume(event);
  };
  node.addEventListener("dblclick", open, { signal });
  node.addEventListener("keydown", onKeyDown, { signal });
}

/** Scroll all texts with the one that the reader scrolls. */
function scrollTogether(pages: HTMLElement[], signal: AbortSignal) {
  for (const page of pages) {
    const onScroll = () => {
      if (!page.matches(":hover, :focus-within")) return; // it follows another, or its layout is not complete yet
      for (const other of pages) other.scrollTop = page.scrollTop;
    };
    page.addEventListener("scroll", onScroll, { signal });
  }
}
