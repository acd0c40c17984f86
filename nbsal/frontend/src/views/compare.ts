// Two explanations of one text on one scale, and their difference.

import { bind, type Context } from "../context";
import { colourScale, SHADING, scaleChoice, shadingControls, textEditor } from "../controls";
import { h, liveRegion, toolbar } from "../dom";
import { explainerControls, firstSide, type Side, secondSide } from "../explainer-controls";
import { explanationReader, layoutCache } from "../explanation";
import { formatScore } from "../format";
import { legend } from "../legend";
import { largestOf, totals } from "../marks";
import { mount } from "../mount";
import { outcomes } from "../outcomes";
import { type ScoredText, scoredText } from "../scored-text";
import type { CompareTraits } from "../traits";

const NAMES = ["first", "second", "difference"];
const DIFFERENCE = "Difference: orange where the first score is higher, blue and underlined where the second is";

export default mount<CompareTraits>("compare", (context) => {
  const { get, root, on } = context;
  const read = explanationReader(context);
  const readout = liveRegion();
  const texts = NAMES.map((name) => scoredText(context, `Tokens, ${name}`, readout));
  const layOut = layoutCache(() => get("level"), texts);
  scrollTogether(texts, context.signal);
  const titles = NAMES.map(() => h("h4", { class: "nbsal-title" }));
  const agreement = h("p", { class: "nbsal-agreement" });
  const colours = legend();
  const [first, second] = [firstSide(context), secondSide(context)];
  const [firstDecision, secondDecision] = [outcomes(first), outcomes(second)];

  const draw = () => {
    const explanation = read();
    const other = get("_other");
    if (!explanation || !other.caption) return;
    const marks = layOut(explanation);
    const maxima = explanation.rows.map((row) => largestOf(totals(marks, row)) || 1);
    const separate = get("scale") === "own";
    const shares = explanation.rows.map((row, i) =>
      row.map((score) => score / (separate ? maxima[i] : Math.max(...maxima))),
    );
    const difference = shares[0].map((share, i) => share - shares[1][i]);
    const scale = colourScale(context);
    texts[0].paint(shares[0], scale, 1);
    texts[1].paint(shares[1], scale, 1);
    texts[2].paint(difference, { ...scale, signed: true }, 1);
    titles[0].textContent = `First: ${explanation.caption}`;
    titles[1].textContent = `Second: ${other.caption}`;
    titles[2].textContent = DIFFERENCE;
    const unit = separate ? "each explanation's largest score" : "the larger of the two largest scores";
    colours.draw(1, scale, true, `share of ${unit} (${maxima.map(formatScore).join(" and ")})`);
    agreement.textContent = get("_result").agreement ?? "";
    firstDecision.draw(explanation);
    secondDecision.draw(other);
  };
  on(["_rev", "scale", ...SHADING], draw);

  root.append(
    textEditor(bind(context, "text")),
    sideControls(context, "First", first, firstDecision.node),
    sideControls(context, "Second", second, secondDecision.node),
    toolbar(...shadingControls(context), scaleChoice(bind(context, "scale"), "One for each", "The same for both")),
    agreement,
    ...texts.flatMap((text, i) => [titles[i], text.node]),
    readout,
    colours.node,
  );
  draw();
});

/** The controls of one explainer and the decision of its model. */
const sideControls = (context: Context<CompareTraits>, name: string, side: Side, decision: HTMLElement) =>
  h("fieldset", { class: "nbsal-side" }, h("legend", {}, name), toolbar(...explainerControls(context, side)), decision);

/** Scroll all texts with the one that the user scrolls. */
function scrollTogether(texts: ScoredText[], signal: AbortSignal) {
  for (const { node } of texts) {
    const onScroll = () => {
      if (!node.matches(":hover, :focus")) return; // it follows another, or its layout is not complete yet
      for (const text of texts) text.node.scrollTop = node.scrollTop;
    };
    node.addEventListener("scroll", onScroll, { signal });
  }
}
