// The hiding and revealing games: words are hidden or revealed one after the other, and the decision follows.

import { beforeAfter } from "../charts/before-after";
import { lineChart } from "../charts/chart";
import { nearest, ticks } from "../charts/chart-geometry";
import { SHADING, segments } from "../controls/display";
import { player } from "../controls/player";
import { saveMenu } from "../controls/save";
import { firstSide } from "../controls/side";
import { EXPLAINED, undo } from "../controls/undo";
import { bind, type Context } from "../page/context";
import { closest, consume, h } from "../page/dom";
import { formatPercent } from "../page/format";
import { mount } from "../page/mount";
import type { Game, GamesTraits, PlayedGames } from "../page/traits";
import { type Steps, stepTag, VERBS } from "../panels/game-words";
import { type Explanation, explanationReader } from "../text/explanation";
import { nameInSentence } from "../text/headline";
import type { Mark } from "../text/marks";
import { reading } from "../text/reading";

type GamesContext = Context<GamesTraits>;

/** What a step hides: words of one text, tokens of many. */
type Noun = "word" | "token";

const CLASSES = 5; // listed beside the text

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

const stepsOf = (played: PlayedGames, game: Game): Steps => ({
  game,
  points: played.points,
  labels: played.labels,
  outcomes: played.outcomes[game],
  probable: played.probable,
});

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
  const [finding, quantity] = [h("h3"), h("span")];
  const chart = lineChart(context, (position) => set({ at: pointsOf(context)[position] }));
  const header = h("header", {}, finding, quantity);
  const node = h("section", { class: "nbsal-panel nbsal-evidence nbsal-hiding" }, header, chart.node, chart.legend);
  const draw = () => {
    const { lines, findings, quantity: measured, band } = get("_game");
    const [game, position, played] = [get("game"), positionOf(context), playedGames(context)];
    if (!lines?.[game]) return; // what is shown is dim until the next result
    const curves = lines[game];
    const share = curves[0].at[position];
    finding.textContent = findings[game];
    quantity.textContent = `${measured}${order()}`;
    chart.draw({
      lines: curves,
      steps: curves[0].at,
      position,
      probable: played?.probable ?? true,
      halved: played?.probable === true && played.labels.length === 2,
      ticks: played ? wordTicks(played.order.length) : SHARE_TICKS,
      xLabel: played
        ? `words ${VERBS[game]}, highest score first`
        : `share of the tokens ${VERBS[game]}, highest score first`,
      yLabel: measured,
      bandLabel: band,
      tag: played
        ? stepTag(stepsOf(played, game), position, played.unit, curves[0].values[position])
        : `${formatPercent(share, 0)} of the tokens ${VERBS[game]}`,
    });
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

const SHARE_TICKS = [0, 0.25, 0.5, 0.75, 1].map((share): [number, string] => [share, formatPercent(share, 0)]);
const wordTicks = (count: number) => ticks(count).map((tick): [number, string] => [tick / (count || 1), String(tick)]);

const gameChoice = (context: GamesContext, noun: Noun) =>
  segments(bind(context, "game"), "Game", [
    ["hiding", `Hide ${noun}s`],
    ["revealing", `Reveal ${noun}s`],
  ]);

function footnote(game: Game, noun: Noun) {
  const [better, bare] = game === "hiding" ? ["lower", "end"] : ["higher", "start"];
  const empty = noun === "word" ? `; its ${bare} is the prediction for an empty text` : "";
  return `the ${better} the curve, the better the ${noun}s were chosen${empty}`;
}

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
      const verb = VERBS[get("game")];
      controls.draw(`Words ${verb}`, `${points[positionOf(context)]} of ${points[last()]}`);
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
    note(footnote(get("game"), "word"));
    if (!played || !explanation) return; // what is shown is dim until the next result
    const [position, game] = [positionOf(context), get("game")];
    const steps = stepsOf(played, game);
    strikeHidden(text.text.node, marks, hiddenTokens(context));
    text.say();
    text.text.readout.setHint(hint(played, position, explanation));
    classes.node.hidden = !played.probable;
    if (played.probable) classes.draw(changes(steps, position), get("_result").target ?? "");
    controls.draw();
  };
  text.say(() => playedGames(context)?.statements[get("game")][positionOf(context)] ?? get("_statements")[0]);
  const hint = (played: PlayedGames, position: number, { tokens, parts }: Explanation): (Node | string)[] => {
    const name = (k: number) => {
      const [first, last] = [tokens[played.order[k][0]], tokens[played.order[k].at(-1) ?? 0]];
      return h("b", {}, nameInSentence(parts[first.part].slice(first.start, last.end)));
    };
    const [count, total] = [played.points[position], played.order.length];
    const verb = get("game") === "hiding" ? "Hidden" : "Revealed";
    const before = count ? [`${verb} last: `, name(count - 1)] : [];
    const next = count < total ? [count ? " \u00b7 next: " : "Next: ", name(count)] : [];
    return [...before, ...next];
  };
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

/** The classes to compare with the start of a game: the likeliest ones at any step. */
function changes({ labels, outcomes, game }: Steps, position: number) {
  const whole = game === "hiding" ? 0 : outcomes.length - 1;
  const most = labels.map((_, k) => Math.max(...outcomes.map((outcome) => outcome[k])));
  const listed = labels
    .map((_, k) => k)
    .sort((a, b) => most[b] - most[a])
    .slice(0, CLASSES)
    .sort((a, b) => outcomes[whole][b] - outcomes[whole][a]);
  return listed.map((k) => ({ name: labels[k], before: outcomes[whole][k], now: outcomes[position][k] }));
}

/** The curves of many texts: no text, every curve has a name and values at the position. */
function corpusGame(context: GamesContext) {
  const { get, on, main, side, note } = context;
  const panel = hidingPanel(context);
  panel.node.classList.add("nbsal-corpus-curves");
  side.remove();
  const answer = h("p", { class: "nbsal-headline", "aria-live": "polite" });
  const draw = () => {
    const { answers } = get("_game");
    if (!answers) return;
    const game = get("game");
    answer.textContent = answers[game][positionOf(context)];
    note(footnote(game, "token"));
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
