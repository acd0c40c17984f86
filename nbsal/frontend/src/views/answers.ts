// A reply beside its sources: choosing words on either side shades the other; rivals, strikes, the matrix, the curve.

import { colourScale, displayMenu, SHADING, segments } from "../controls/display";
import { layerStepper } from "../controls/explainer-controls";
import { methodPicker } from "../controls/method-picker";
import { saveMenu } from "../controls/save";
import { firstSide } from "../controls/side";
import { undo } from "../controls/undo";
import type { AnswersTraits } from "../page/answer-traits";
import { bind, type Context } from "../page/context";
import { h, link } from "../page/dom";
import { mount } from "../page/mount";
import type { ExplainerTraits, Phrase, ShadedTraits } from "../page/traits";
import { sourceCards, struckTokens } from "../panels/answer-cards";
import { carriersStrip } from "../panels/answer-carriers";
import { type Explained, explained, isOf, partOf, replyContext, selectReply } from "../panels/answer-choice";
import { citationsPanel } from "../panels/answer-citations";
import { curvePanel } from "../panels/answer-curve";
import { type AnswerData, answerMarks, answerReader, fadedMarks, sharesOf, textOf } from "../panels/answer-data";
import { shareMatrix } from "../panels/answer-matrix";
import { answerReadout } from "../panels/answer-readout";
import { rivalChoice } from "../panels/answer-rivals";
import { phraseNodes } from "../text/headline";
import { legend } from "../text/legend";
import { largestOf } from "../text/marks";
import { scoredText } from "../text/scored-text";
import { shareBar } from "../text/share-bar";

const TITLE =
  "Measured: the same reply is scored again without each source. The scores, which shade the text, only propose sources.";
const WRITING = "The model is writing\u2026";

export default /* @__PURE__ */ mount<AnswersTraits>("answers", (context) => {
  const { get, set, on, ask, main, side, root, live, signal, mirror } = context;
  const read = answerReader(context);
  let data: AnswerData | null = null;
  let now: Explained | null = null;
  let laidOut: unknown[] = [];
  let largest = 0; // score with full colour
  const columns = main.parentElement as HTMLElement;
  const more = h("div", { class: "nbsal-panel nbsal-more-panels" });
  const headline = h("p", { class: "nbsal-headline", "aria-live": "polite", title: TITLE });
  const readout = answerReadout(context, () => ({ data, now, largest, subject: subject() }));
  const [colours, share] = [legend(), shareBar()];

  const subject = () => (now && data && partText() ? `\u201c${partText()}\u201d` : "the reply");
  /** The chosen words, or nothing for the whole reply. */
  const partText = () => {
    if (!data || !now || !(get("selection").length || now.rival)) return "";
    const { start } = data.reply;
    return textOf(
      data,
      now.tokens.map((token) => token + start),
    );
  };
  const reply = scoredText(
    replyContext(context, () => data?.reply.start ?? 0),
    "The reply, word by word",
    readout.reply,
  );
  const cards = sourceCards(context, readout.describeSource);
  const matrix = shareMatrix(context, {
    select: (row) => selectReply(context, row === null ? [] : (data?.reply.phrases[row] ?? [])),
    say: (words) => readout.say(matrix, words),
  });
  const curve = curvePanel(context, () => drawStrikes());
  const citations = citationsPanel(context, cards.markRoles);
  const rivals = rivalChoice(context, (token) => (data ? textOf(data, [token + data.reply.start]) : ""));
  const carriers = carriersStrip(context, (tokens) => selectReply(context, tokens));
  const [kind, facts] = [h("span"), h("span")];
  const page = h("div", { class: "nbsal-page" }, reply.node);
  const write = link(signal, "Write again", () => ask("write_again"));
  write.title = "Let the model reply anew, without what is struck out";
  write.hidden = !live;
  const struck = h("span", { "aria-live": "polite" });
  const strikes = h("p", { class: "nbsal-strikes" }, struck, write);
  const others = h("div", { class: "nbsal-replies" });
  const box = h(
    "section",
    { class: "nbsal-reply", role: "group", "aria-label": "Reply" },
    h("div", { class: "nbsal-reply-head" }, kind, facts),
    page,
    strikes,
    carriers.node,
    others,
  );

  const layOut = () => {
    if (!data) return;
    const state = [data.tokens, data.parts, get("level"), get("certainty")];
    if (state.every((value, i) => value === laidOut[i]) && laidOut.length) return;
    laidOut = state;
    const part = data.parts.length - 1;
    cards.layOut(data);
    const marks = answerMarks(data, part, get("level"));
    const faded = get("certainty") && data.rows.length ? fadedMarks(marks, data.reply) : marks;
    reply.layOut({ marks: faded, parts: [data.parts[part]], answer: null });
    reply.node.setAttribute("aria-busy", String(!data.rows.length));
  };
  const drawHeadline = (phrases: Phrase[]) => {
    const sentence = phrases.map(([, text]) => text).join("");
    if (headline.textContent !== sentence) headline.replaceChildren(...phraseNodes(phrases));
  };
  /** Which words of the reply depend on the words of a source that are chosen; false if none are. */
  const paintReply = (answer: AnswerData) => {
    const chosen = get("source_selection").filter((i) => i < answer.reply.start && !answer.tokens[i].special);
    const scores = new Float64Array(answer.tokens.length);
    if (chosen.length)
      for (const [token, row] of answer.rows.entries())
        for (const i of chosen) scores[answer.reply.start + token] += row[i];
    const drawn = reply.paint(scores, colourScale(shading));
    return chosen.length ? { chosen, ...drawn } : null;
  };
  const shading = context as unknown as Context<ShadedTraits>;
  const paint = () => {
    if (!data?.rows.length) return;
    const next = explained(context, data);
    root.classList.toggle("nbsal-unexplained", next === null);
    if (!next) return drawMarks();
    now = next;
    const scale = colourScale(shading);
    const shares = sharesOf(data, now.scores);
    const backwards = paintReply(data);
    const [most, negative] = cards.extremes(now.scores);
    largest = most;
    cards.paint(backwards ? new Float64Array(data.tokens.length) : now.scores, scale, largest);
    const part = partOf(context, data, now);
    if (backwards) {
      const { chosen, scores } = backwards;
      drawHeadline(data.sources[data.tokens[chosen[0]].part].headline);
      const against = scores.some((score) => score < 0);
      colours.draw(scale, against, [strongestOf(reply.words())], ["against it", "for it"]);
    } else {
      drawHeadline(part.headline);
      const ends = now.rival ? [`for \u201c${now.rival}\u201d`, `for \u201c${partText()}\u201d`] : undefined;
      colours.draw(scale, negative, [strongestOf(cards.words())], ends);
    }
    const exact = isOf(part, now); // else what is said is of more words, whose numbers would be others
    share.node.hidden = !exact;
    share.draw(part.legend);
    cards.drawShares(
      shares,
      exact ? part.shares : [],
      new Map(data.reply.measured.map((source, i) => [source, part.changes[i]])),
      get("struck"),
    );
    struck.replaceChildren(...phraseNodes(part.struck));
    root.classList.toggle("nbsal-unmoved", !part.matters);
    rivals.draw(data, part.at);
    carriers.draw(part);
    drawMarks();
  };
  /** The rows of the matrix of what is chosen. */
  const drawMarks = () => {
    if (!data?.rows.length) return;
    const selected = new Set(get("selection"));
    const banded = data.reply.phrases.flatMap((tokens, row) =>
      tokens.some((token) => selected.has(token)) ? [row] : [],
    );
    matrix.mark(new Set(banded));
  };
  const drawStrikes = () => {
    if (!data) return;
    const hidden = struckTokens(data, get("struck"));
    for (const i of curve.hidden()) hidden.add(i);
    cards.strikeWords(hidden);
  };
  /** The other replies, and the one that is being written. */
  const drawReplies = () => {
    const [replies, at, draft] = [get("_replies"), get("_inputs").written as number, get("_draft")];
    kind.textContent = at ? replies[at].title : "Reply";
    const shown = replies.flatMap(({ title, text, likelihood }, number) => {
      if (number === at || !text) return [];
      const show = link(signal, "Show", () => set({ written: number, struck: [] }));
      show.disabled = !live;
      return [otherReply(h("span", {}, title, " \u00b7 ", show), likelihood, text)];
    });
    if (draft && data?.rows.length) shown.push(otherReply(h("span", {}, WRITING), "", draft));
    others.replaceChildren(...shown);
  };
  const drawFacts = () => {
    if (!data) return;
    const writes = !data.rows.length;
    for (const part of [share.node, matrix.node, curve.node, write]) part.hidden = writes || (part === write && !live);
    rivals.node.hidden ||= writes;
    if (writes) {
      headline.textContent = get("status") === "error" ? "" : WRITING;
      return;
    }
    route.classList.toggle("nbsal-invisible", !data.reply.follows);
    facts.textContent = data.reply.likelihood;
    const columns = [...data.sources.map(({ short, name }) => ({ short, name })), data.reply.so_far];
    const keep = columns.map((_, i) => data?.sources[i]?.status !== "not read");
    const pick = <T>(values: T[]) => values.filter((_, i) => keep[i]);
    const { names: rows, matrix: shares, cells, finding, unit } = data.reply;
    const [picked, texts] = [shares.map(pick), cells.map(pick)];
    matrix.draw({ rows, columns: pick(columns), shares: picked, cells: texts, finding, unit }, colourScale(shading));
  };
  const draw = () => {
    data = read();
    if (!data) return;
    layOut();
    drawFacts();
    paint();
    drawStrikes();
    drawReplies();
    curve.draw(data);
    citations.draw(data);
  };
  const drawDraft = () => {
    if (data?.rows.length) drawReplies();
    if (!data || data.rows.length) return;
    const texts = [get("_draft")];
    reply.layOut({ marks: [], parts: texts, answer: null });
  };
  /** What was chosen since the result leaves its scores as they are. */
  const drawHolds = () => {
    const inputs = get("_inputs");
    const holds = (["method", "layer", "hops", "rival", "at", "written"] as const).every(
      (name) => inputs[name] === get(name),
    );
    root.classList.toggle("nbsal-holds", holds && Boolean(data?.rows.length));
  };

  const method = firstSide(context as unknown as Context<ExplainerTraits>);
  const units = segments(bind(context, "level"), "Unit of the answer", [
    ["word", "Words"],
    ["sentence", "Sentences"],
    ["document", "Documents"],
  ]);
  const hops = bind(context, "hops");
  const route = segments({ ...hops, get: () => (hops.get() === 0 ? 0 : "all") } as typeof hops, "Scores arrive", [
    [0, "Directly"],
    ["all", "Through the reply"],
  ]);
  const certainty = segments(bind(context, "certainty"), "Certainty", [
    [false, "Off"],
    [true, "Faint where unsure"],
  ]);
  const tools = h(
    "div",
    { class: "nbsal-tools" },
    methodPicker(method),
    units,
    route,
    h("span", { class: "nbsal-grow" }),
    h(
      "span",
      { class: "nbsal-tools" },
      undo(context, ["method", "layer", "hops", "rival", "struck", "written"]),
      displayMenu(shading, [
        ["Certainty", certainty],
        ["Layer", layerStepper(method)],
      ]),
      saveMenu(context),
    ),
  );
  const readLine = h("div", { class: "nbsal-read nbsal-small" }, readout.node, colours.node);
  columns.before(headline);
  main.append(box, readLine, citations.node);
  side.append(cards.node, share.node, curve.node);
  more.append(rivals.node, tools, matrix.node);
  columns.append(more);
  on(["_rev"], draw);
  on(["level", "certainty"], () => {
    layOut();
    paint();
    drawStrikes();
  });
  on(
    SHADING.filter((name) => name !== "level"),
    () => {
      drawFacts();
      paint();
    },
  );
  on(["selection", "source_selection", "_chosen"], paint);
  on(["struck"], () => {
    paint();
    drawStrikes();
  });
  on(["panels"], drawStrikes);
  on(["_draft"], drawDraft);
  mirror(["method", "layer", "hops", "rival", "at", "written", "_inputs", "status"], drawHolds);
  mirror(["status"], () => {
    if (!data?.rows.length) drawFacts();
  });
  draw();
});

/** A reply that is not on display, under what it is and how likely it is. */
function otherReply(title: Node, likelihood: string, text: string) {
  const head = h("div", { class: "nbsal-reply-head" }, title, h("span", {}, likelihood));
  return h("div", { class: "nbsal-rewritten" }, head, h("p", { class: "nbsal-text", dir: "auto" }, text));
}

/** The name of the strongest word, for the legend. */
function strongestOf(words: { text: string; score: number; name?: string }[]) {
  const most = largestOf(words.map(({ score }) => score));
  const word = words.find(({ score }) => most > 0 && Math.abs(score) === most);
  return word ? word.name || `\u201c${word.text.trim().slice(0, 24)}\u201d` : "";
}
