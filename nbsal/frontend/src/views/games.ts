// The hiding and revealing games: moving along a curve hides or reveals tokens, and the decision follows.

import { lineChart } from "../chart";
import { nearest, valueAt } from "../chart-geometry";
import { LINEAR } from "../colour";
import { bind, type Context } from "../context";
import { choice, textEditor } from "../controls";
import { h, toolbar } from "../dom";
import { explainerControls, firstSide } from "../explainer-controls";
import { type Explanation, explanationReader, layoutCache } from "../explanation";
import { capitalize } from "../format";
import { largestOf, totals } from "../marks";
import { mount } from "../mount";
import { outcomes } from "../outcomes";
import { scoredText } from "../scored-text";
import type { GamesTraits } from "../traits";

const GAMES = [
  { value: "hiding" as const, name: "Hiding (a lower curve is better)" },
  { value: "revealing" as const, name: "Revealing (a higher curve is better)" },
];

/** The curves of one game, a position on them, and the text at that step. */
export function games(context: Context<GamesTraits>) {
  const { get, on, set } = context;
  const text = scoredText(context, "Remaining tokens");
  const step = h("p", { class: "nbsal-step", "aria-live": "polite" });
  const decision = outcomes(firstSide(context));
  const chart = lineChart(context, (position) => set({ at: points()[position] }));
  const layOut = layoutCache(() => get("level"), [text]);
  let explanation: Explanation | null = null;

  /** The number of tokens at each step; curves of many texts have numbered steps instead. */
  const points = () => {
    const played = get("_game");
    return played.points ?? played.lines?.[get("game")][0].at.map((_, i) => i) ?? [];
  };
  const draw = () => {
    const played = get("_game");
    node.hidden = !played.lines;
    if (!played.lines) return;
    const game = get("game");
    const lines = played.lines[game];
    const position = nearest(points(), get("at"));
    const share = lines[0].at[position];
    const { unit, probable = true } = played;
    const verb = game === "hiding" ? "hidden" : "revealed";
    const values = lines.map((line) => `${valueAt(line, share).toFixed(3)} (${line.name})`);
    const count = played.points
      ? `${played.points[position]} of ${played.order.length} tokens`
      : `${Math.round(100 * share)}% of the tokens`;
    const output = probable ? "Probability of" : "Model output for";
    const quantity = played.points ? `${output} ${unit}` : capitalize(unit);
    step.textContent = `${count} ${verb}. ${quantity}: ${values.join(", ")}`;
    chart.draw({
      lines,
      steps: lines[0].at,
      position,
      value: lines[0].values[position],
      probable,
      xLabel: `Share of tokens ${verb}`,
      yLabel: quantity,
      bandLabel: played.points ? "Shaded: range of the random orders" : "Shaded: 95% intervals",
      text: step.textContent,
    });
    if (!played.points || !explanation) return;
    drawStep(explanation, new Set(played.order.slice(0, played.points[position])));
    if (!probable) return;
    const probabilities = played.outcomes[game][position];
    decision.draw({
      probabilities: probabilities.map((p, i) => [played.labels[i], p]),
      prediction: played.labels[probabilities.indexOf(Math.max(...probabilities))],
      target: get("_result").target ?? "",
    });
  };
  /** The text with its hidden tokens struck through. */
  const drawStep = (explanation: Explanation, moved: Set<number>) => {
    const marks = layOut(explanation);
    const [row] = explanation.rows;
    const isHidden = (i: number) => moved.has(i) === (get("game") === "hiding");
    const remaining = row.map((score, i) => (isHidden(i) ? 0 : score));
    text.paint(remaining, LINEAR, largestOf(totals(marks, row)));
    for (const span of text.node.querySelectorAll<HTMLElement>(".nbsal-mark")) {
      const hidden = marks[Number(span.dataset.mark)].tokens.some(isHidden);
      span.classList.toggle("nbsal-hidden", hidden);
      if (hidden) span.setAttribute("aria-description", "hidden");
      else span.removeAttribute("aria-description");
    }
  };
  on(["game", "at", "level"], draw);
  const gameChoice = choice(bind(context, "game"), "Game", () => GAMES, true);
  const node = h(
    "div",
    {},
    toolbar(gameChoice),
    chart.node,
    chart.legend,
    step,
    decision.node,
    text.node,
    text.readout,
  );
  return {
    node,
    draw(next: Explanation | null) {
      explanation = next;
      draw();
    },
  };
}

export default /* @__PURE__ */ mount<GamesTraits>("games", (context) => {
  const { get, root, on } = context;
  const read = explanationReader(context);
  const pane = games(context);
  const draw = () => pane.draw(read());
  on(["_rev"], draw);
  if (get("method")) {
    const controls = toolbar(...explainerControls(context));
    root.append(textEditor(bind(context, "text")), controls);
  }
  root.append(pane.node);
  draw();
});
