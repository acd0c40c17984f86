// @ts-check
// Reading: the result a model holds, decoded; tokens are decoded again only when there are new ones.

import { rowsOf, tokensOf } from "./decode.js";
import { number } from "./layout.js";
import { marksOf } from "./words.js";

/** @typedef {import("./mount.js").Model} Model */
/** @typedef {import("./decode.js").Token} Token */
/**
 * @typedef {{ tokens: Token[], parts: string[], rows: Float64Array[], answer: [number, number] | null,
 *   target: string, prediction: string, method: string, layer: any, caption: string, agreement: string,
 *   probabilities: [string, number][] }} Reading
 */

/**
 * @param {Model} model
 * @returns {() => Reading | null}
 */
export function reader(model) {
  /** @type {any} */
  let wired = null;
  /** @type {Token[]} */
  let tokens = [];
  return () => {
    const [now, result] = [model.get("_tokens"), model.get("_result")];
    if (!now?.parts) return null;
    try {
      if (now !== wired) [wired, tokens] = [now, tokensOf(now)];
      const rows = rowsOf(model.get("_scores"), result.scales);
      if (rows.every((row) => row.length === tokens.length)) return { tokens, parts: now.parts, rows, ...result };
    } catch {} // there are fewer bytes than tokens
    throw new Error("its data are damaged. Run the cell again.");
  };
}

/**
 * Lays texts out whenever there are new tokens or another level, and answers with the marks.
 * @param {Model} model
 * @param {{ lay: (marks: import("./words.js").Mark[], parts: string[], nameOf: (k: number) => string,
 *   answer: [number, number] | null) => void }[]} texts
 */
export function laid(model, texts) {
  /** @type {import("./words.js").Mark[]} */
  let marks = [];
  let level = "";
  /** @type {Token[] | null} */
  let tokens = null;
  return (/** @type {Reading} */ found) => {
    if (found.tokens !== tokens || level !== model.get("level")) {
      [tokens, level] = [found.tokens, model.get("level")];
      marks = marksOf(found.tokens, model.get("level"));
      for (const text of texts)
        text.lay(marks, found.parts, (k) => nameOf(found.tokens, found.parts, marks[k]), found.answer);
    }
    return marks;
  };
}

/**
 * How a mark is called: what stands in the text, and what the model calls it where that differs.
 * @param {Token[]} tokens
 * @param {string[]} parts
 * @param {import("./words.js").Mark} mark
 */
export function nameOf(tokens, parts, { part, start, end, tokens: members }) {
  const text = parts[part].slice(start, end);
  const names = members.map((i) => tokens[i].name).filter((name) => name && !text.includes(name));
  return names.length ? `${text} (${names.join(" ")})` : text;
}

/**
 * What a reader of the legend must know of the tokens that are not shown.
 * @param {Token[]} tokens
 * @param {Float64Array} scores
 */
export function hidden(tokens, scores) {
  const special = tokens.flatMap((token, i) => (token.special ? [`${token.name} ${number(scores[i])}`] : []));
  return special.length > 6 ? `${special.slice(0, 6).join(", ")} and ${special.length - 6} more` : special.join(", ");
}
