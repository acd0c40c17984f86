// The hiding and revealing games: words are hidden or revealed one after the other, and the decision follows.

import { beforeAfter } from "../charts/before-after";
import { lineChart } from "../charts/chart";
import { nearest } from "../charts/chart-geometry";
import { SHADING, segments } from "../controls/display";
import { player } from "../controls/player";
import { saveMenu } from "../controls/save";
import { firstSide } from "../controls/side";
import { EXPLAINED, undo } from "../controls/undo";
import { bind, type Context } from "../page/context";
import { closest, consume, h, panel } from "../page/dom";
import { mount } from "../page/mount";
import type { GamesTraits, PlayedGames } from "../page/traits";
import { type Explanation, explanationReader } from "../text/explanation";
import { UNCHECKED } from "../text/headline";
import type { Mark } from "../text/marks";
import { reading } from "../text/reading";

type GamesContext = Context<GamesTraits>;

/** What a step hides: words of one text, tokens of many. */
type Noun = "word" | "token";

/** The games on one text, once they are computed. */
const playedGames = ({ get }: Pick<GamesContext, "get">): PlayedGames | null => {
  const played = get("_game");
  return played.points ? played : null;
};

/** The number of words at each step; curves of many texts have numbered steps instead. */
function pointsOf({ get }: GamesContext): number[] {
  const { points, lines } = get("_game");
  return points ?? lines?.[get("game")][0].at.map((_, i) => i) ?? [0];
}

/** The step on display. */
const positionOf = (context: GamesContext) => nearest(pointsOf(context), context.get("at"));

/** The tokens that are hidden at the step on display. */
export function hiddenTokens(context: GamesContext): Set<number> {
  const played = playedGames(context);
  if (!played) return new Set();
  const count = played.points[positionOf(context)];
  const words = context.get("game") === "hiding" ? played.order.slice(0, count) : played.order.slice(count);
  return new Set(words.flat());
}

/** Strike through the hidden words of a text; they keep their room. */
export function strikeHidden(text: HTMLElement, marks: Mark[], hidden: Set<number>) {
  for (const span of text.querySelectorAll<HTMLElement>(".nbsal-mark")) {
    const isHidden = marks[Number(span.dataset.mark)]?.tokens.some((i) => hidden.has(i)) ?? false;
    if (span.classList.contains("nbsal-hidden") === isHidden) continue;
    span.classList.toggle("nbsal-hidden", isHidden);
    if (isHidden) span.setAttribute("aria-description", "hidden");
    else span.removeAttribute("aria-description");
  }
}

/** The curves of the game on display under what they show, and a position on them; `order` says whose order it is. */
export function hidingPanel(context: GamesContext, order = () => "") {
  const { get, set, on } = context;
  const chart = lineChart(context, (position) => set({ at: pointsOf(context)[position] }));
  const { node, heading, note } = panel("nbsal-evidence nbsal-hiding", chart.node, chart.legend);
  const draw = () => {
    const { lines, axes, findings, tags, quantity: measured, band, halved } = get("_game");
    const [game, position] = [get("game"), positionOf(context)];
    if (!lines?.[game]) return; // what is shown is dim until the next result
    const [curves, tag] = [lines[game], tags[game][position]];
    heading.textContent = findings[game];
    note.textContent = `${measured}${order()}`;
    const steps = curves[0].at;
    chart.draw({ lines: curves, steps, position, axes: axes[game], halved, yLabel: measured, bandLabel: band, tag });
    drawMarks();
  };
  /** Mark the places of the selected words and of the one under the pointer in the order. */
  const drawMarks = () => {
    const { order } = get("_game");
    const tokens = [...get("selection"), get("hover")];
    const words = order?.flatMap((word, k) => (word.some((i) => tokens.includes(i)) ? [(k + 1) / order.length] : []));
    chart.mark(words ?? []);
  };
  on(["game", "at"], draw);
  on(["selection", "hover"], drawMarks);
  return {
    node,
    draw(_explanation: Explanation | null) {
      draw();
    },
  };
}

const gameChoice = (context: GamesContext, noun: Noun) =>
  segments(bind(context, "game"), "Game", [
    ["hiding", `Hide ${noun}s`],
    ["revealing", `Reveal ${noun}s`],
  ]);

/** Play, the slider and Space anywhere in the view. */
function gamePlayer(context: GamesContext) {
  const { get, set, root, signal } = context;
  const last = () => pointsOf(context).length - 1;
  const controls = player(
    {
      position: () => positionOf(context),
      last,
      move: (position) => set({ at: pointsOf(context)[position] }),
    },
    signal,
  );
  const onSpace = (event: KeyboardEvent) => {
    if (event.key !== " " || closest(event, "button, summary, textarea, select, input:not([type=range])")) return;
    controls.toggle();
    consume(event);
  };
  root.addEventListener("keydown", onSpace, { signal });
  return {
    node: controls.node,
    draw() {
      const points = pointsOf(context);
      const label = { hiding: "Words hidden", revealing: "Words revealed" }[get("game")];
      controls.draw(label, `${points[positionOf(context)]} of ${points[last()]}`);
    },
  };
}

/** The games on one text: the headline, the text and the classes at the step on display. */
function textGame(context: GamesContext) {
  const { get, on, main, side, note } = context;
  const read = explanationReader(context);
  const [text, panel, controls] = [reading(context), hidingPanel(context), gamePlayer(context)];
  const classes = beforeAfter(firstSide(context));
  let explanation: Explanation | null = null;
  let marks: Mark[] = [];

  const drawStep = () => {
    const played = playedGames(context);
    if (!played || !explanation) return; // what is shown is dim until the next result
    const [position, game] = [positionOf(context), get("game")];
    note(played.footnotes[game]);
    strikeHidden(text.text.node, marks, hiddenTokens(context));
    text.say();
    text.text.readout.setHint(played.hints[game][position].map((words, i) => (i % 2 ? h("b", {}, words) : words)));
    const { classes: starts, steps } = played.changes[game];
    classes.node.hidden = !starts.length;
    classes.draw(
      starts.map((start, k) => [...start, ...steps[position][k]]),
      get("_result").target ?? "",
    );
    controls.draw();
  };
  text.say(() => {
    const sentence = playedGames(context)?.sentences[get("game")][positionOf(context)];
    return sentence ? { ...UNCHECKED, sentence } : get("_statements")[0];
  });
  const draw = () => {
    explanation = read();
    if (explanation) ({ marks } = text.draw(explanation, explanation.rows[0]));
    panel.draw(explanation);
    drawStep();
  };
  on(["_rev", ...SHADING], draw);
  on(["game", "at"], () => {
    const back = get("game") === "hiding" && positionOf(context) === 0;
    if (back) draw();
    else drawStep();
  });
  controls.draw();
  controls.node.append(gameChoice(context, "word"));
  text.addTool(undo(context, EXPLAINED));
  main.append(text.headline, ...text.page, controls.node, classes.node, text.tools);
  side.append(panel.node);
  draw();
}

/** The curves of many texts: no text, every curve has a name and values at the position. */
function corpusGame(context: GamesContext) {
  const { get, on, main, side, note } = context;
  const panel = hidingPanel(context);
  panel.node.classList.add("nbsal-corpus-curves");
  side.remove();
  const answer = h("p", { class: "nbsal-headline", "aria-live": "polite" });
  const draw = () => {
    const { answers, footnotes } = get("_game");
    if (!answers) return;
    answer.textContent = answers[get("game")][positionOf(context)];
    note(footnotes[get("game")]);
    panel.draw(null);
  };
  on(["_rev", "game", "at"], draw);
  const tools = h("div", { class: "nbsal-tools" }, gameChoice(context, "token"), h("span", { class: "nbsal-grow" }));
  tools.append(saveMenu(context));
  main.append(answer, panel.node, tools);
  draw();
}

export default /* @__PURE__ */ mount<GamesTraits>("games", (context) => {
  if (context.get("method")) textGame(context);
  else corpusGame(context);
});
