// @ts-check
// Games: drag along a curve, and tokens go, or come, in the order of importance and the decision with them.

import { chart } from "../chart.js";
import { PLAIN } from "../colour.js";
import { choice, editor, explaining } from "../controls.js";
import { nearest, valueAt } from "../curve.js";
import { h } from "../dom.js";
import { mount } from "../mount.js";
import { outcomes } from "../parts.js";
import { laid, reader } from "../reading.js";
import { scoredText } from "../text.js";
import { largestOf, totals } from "../words.js";

/** @typedef {import("../mount.js").Context} Context */
/** @typedef {import("../reading.js").Reading} Reading */

const GAMES = [
  { value: "hiding", name: "hiding, low is better" },
  { value: "revealing", name: "revealing, high is better" },
];

/**
 * The curves of one game, a place on them, and the text as it then is.
 * @param {Context} context
 */
export function games(context) {
  const { model, on, set } = context;
  const text = scoredText(context, "tokens that are left");
  const told = h("p", { class: "nbsal-told", "aria-live": "polite" });
  const said = outcomes(context);
  const curves = chart(context, (place) => set({ at: steps()[place] }));
  /** @type {Reading | null} */ let found = null;
  const lay = laid(model, [text]);

  const steps = () => {
    const { points, lines } = model.get("_game");
    return points ?? lines[model.get("game")][0].at.map((/** @type {number} */ _, /** @type {number} */ i) => i);
  };
  const draw = () => {
    const { lines, unit, probable = true, points, order, labels, outcomes: after } = model.get("_game");
    node.hidden = !lines;
    if (!lines) return;
    const game = model.get("game");
    const shown = lines[game];
    const place = nearest(steps(), model.get("at"));
    const share = shown[0].at[place];
    const gone = game === "hiding" ? "hidden" : "shown";
    const values = shown.map(
      (/** @type {import("../curve.js").Line} */ line) => `${line.name} ${valueAt(line, share).toFixed(3)}`,
    );
    const count = points ? `${points[place]} of ${order.length} tokens` : `${Math.round(100 * share)}% of the tokens`;
    told.textContent = `${count} ${gone}: ${unit}, ${values.join(", ")}`;
    curves.draw({
      lines: shown,
      steps: shown[0].at,
      place,
      probable,
      across: `share of the tokens ${gone}`,
      up: points ? `${probable ? "probability of" : "the model's output for"} ${unit}` : unit,
      shaded: points ? "shaded: the range of orders by chance" : "shaded: 95 % intervals",
      text: told.textContent,
      mark: shown[0].values[place],
    });
    if (!points || !found) return;
    follow(points[place], order, game);
    const row = after[game][place];
    const best = row.indexOf(Math.max(...row));
    if (probable)
      said.draw({
        probabilities: row.map((/** @type {number} */ p, /** @type {number} */ i) => [labels[i], p]),
        prediction: labels[best],
        target: model.get("_result").target,
      });
  };
  /** @param {number} count @param {number[]} order @param {string} game */
  const follow = (count, order, game) => {
    const { rows } = /** @type {Reading} */ (found);
    const marks = lay(/** @type {Reading} */ (found));
    const moved = new Set(order.slice(0, count));
    const gone = (/** @type {number} */ i) => moved.has(i) === (game === "hiding");
    const left = rows[0].map((score, i) => (gone(i) ? 0 : score));
    text.paint(left, PLAIN, largestOf(totals(marks, rows[0])));
    for (const span of text.node.querySelectorAll(".nbsal-mark")) {
      const { tokens: members } = marks[Number(/** @type {HTMLElement} */ (span).dataset.mark)];
      const away = members.some(gone);
      span.classList.toggle("nbsal-gone", away);
      if (away) span.setAttribute("aria-description", "hidden");
      else span.removeAttribute("aria-description");
    }
  };
  on(["game", "at", "level"], draw);
  const node = h(
    "div",
    {},
    h(
      "div",
      { class: "nbsal-controls" },
      choice(context, "game", "game", () => GAMES, true),
    ),
    curves.node,
    curves.key,
    told,
    said.node,
    text.node,
    text.said,
  );
  return {
    node,
    /** @param {Reading | null} given */
    draw(given) {
      found = given;
      draw();
    },
  };
}

export default /* @__PURE__ */ mount("games", (context) => {
  const { model, root, on } = context;
  const read = reader(model);
  const pane = games(context);
  const draw = () => pane.draw(read());
  on(["_rev"], draw);
  const live = model.get("method");
  root.append(
    ...(live ? [editor(context), h("div", { class: "nbsal-controls" }, ...explaining(context))] : []),
    pane.node,
  );
  draw();
});
