// One text and what explains it: the headline, the shaded text, its readout and legend, the classes and the tools.

import { colourScale, displayMenu } from "../controls/display";
import { methodControls, selectionButton, topSetting } from "../controls/explainer-controls";
import { outcomes } from "../controls/outcomes";
import { saveMenu } from "../controls/save";
import { firstSide } from "../controls/side";
import { bind, type Context } from "../page/context";
import { h } from "../page/dom";
import type { Level, ShadedTraits, Statement } from "../page/traits";
import { isBlank, PROMPT } from "./blank";
import { textEditor, typing } from "./editor";
import type { Explanation } from "./explanation";
import { headline } from "./headline";
import { legend as colourLegend } from "./legend";
import { type Mark, marksOf } from "./marks";
import { minimap } from "./minimap";
import { scoredText } from "./scored-text";
import { search } from "./search";
import { shareBar } from "./share-bar";

const legendOf = ({ rows, legends }: Explanation, row: Float64Array) => legends[rows.indexOf(row)];

export function reading(context: Context<ShadedTraits>, settings: (Node | string)[][] = []) {
  const { get, mirror } = context;
  const side = firstSide(context);
  const heading = headline(context);
  const text = scoredText(context);
  const editor = textEditor(bind(context, "text"), text, typing(context));
  const [colours, share, decision] = [colourLegend(), shareBar(), outcomes(side)];
  const map = minimap(context, (at) => text.reveal(Math.round(at * (marks.length - 1))));
  const finder = search(context, text);
  let marks: Mark[] = [];
  let laidOut: unknown[] = [];

  const layOut = ({ tokens, parts, answer }: Explanation, level: Level) => {
    if (tokens === laidOut[0] && level === laidOut[1]) return;
    laidOut = [tokens, level];
    marks = marksOf(tokens, level);
    text.layOut({ marks, parts, answer });
    finder.refresh();
  };
  mirror(["text"], () => {
    const blank = isBlank(get("text"));
    if (blank || !get("_tokens").parts) heading.sentence.replaceChildren(blank ? PROMPT : "");
  });
  let statement: () => Statement | undefined = () => get("_statements")[0];
  let held: Statement | undefined; // with an older text typed, what was said last is said again
  const say = () => {
    if (!context.isOlder()) held = statement();
    if (held) heading.draw(held);
  };
  heading.follow(() => (held = statement()));
  const grow = h("span", { class: "nbsal-grow" });
  const tools = h(
    "div",
    { class: "nbsal-tools" },
    h("span", { class: "nbsal-tools nbsal-how" }, ...methodControls(side)),
    h(
      "span",
      { class: "nbsal-tools nbsal-rest" },
      editor.button,
      ...selectionButton(context, side),
      finder.node,
      grow,
      h("span", { class: "nbsal-tools" }, displayMenu(context, [...settings, topSetting(side)]), saveMenu(context)),
    ),
  );
  const line = h("div", { class: "nbsal-read nbsal-small" }, text.readout.node, colours.node);
  return {
    nodes: [heading.node, map.node, editor.page, line, share.node, decision.node, tools],
    headline: heading.node,
    page: [map.node, editor.page, line],
    text,
    tools,
    /** Say what holds now; `chosen` chooses it from now on. */
    say(chosen = statement) {
      statement = chosen;
      say();
    },
    /** The words that were hidden alone, as far as is said. */
    alone: () => held?.alone ?? [],
    addTool: (tool: Node) => grow.before(tool),
    /** Draw a row of scores; `top` is the score with full colour. Return the marks. */
    draw(explanation: Explanation, row: Float64Array, top?: number, legend = legendOf(explanation, row)) {
      layOut(explanation, get("level"));
      const scale = colourScale(context);
      const { scores, largest } = text.paint(row, scale, top);
      text.readout.setScores(legend.ranked[get("level")]);
      say();
      const negative = scores.some((score) => score < 0);
      colours.draw(scale, negative, legend.strongest[get("level")]);
      share.draw(legend);
      decision.draw(explanation);
      map.node.hidden = finder.node.hidden = !text.long();
      if (text.long()) map.draw(scores, largest, scale);
      editor.refresh();
      return { marks };
    },
  };
}
