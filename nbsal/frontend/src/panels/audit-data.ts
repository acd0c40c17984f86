// Texts of an audit: unpacked into pieces, cut around a word, and what was decided about them in words.

import type { AuditData, AuditedText, AuditTraits, Decided } from "../page/audit-traits";
import type { Context } from "../page/context";
import { confidence } from "../page/format";
import type { Pieces } from "../text/excerpt";

export type AuditContext = Context<AuditTraits>;

const BEFORE = 80; // characters before the first marked word
const LONGEST = 240; // characters of an excerpt
const LABEL = 24; // characters of a word in a sentence, as in Python
const ELLIPSIS = "\u2026";
const PARTING = " | "; // between the texts of a pair

/** The audit, once there is one. */
export const auditOf = ({ get }: AuditContext): AuditData | null => {
  const audit = get("_audit");
  return audit.words ? audit : null;
};

/** Whether an audit is the one that is drawn: Python may send the same again. */
export const isSame = (audit: AuditData, drawn: AuditData | null) =>
  audit === drawn || JSON.stringify(audit) === JSON.stringify(drawn);

/** A text of the page by its number, if it holds that text. */
export const textOf = ({ get }: AuditContext, number: number): AuditedText | undefined =>
  get("_choice").more?.[number] ?? get("_texts")[number];

/** The pieces of a text, in which those words are marked: by their number among all names, and their place. */
export function piecesOf({ parts }: AuditedText, isMarked: (name: number, place: number) => boolean): Pieces {
  const pieces: Pieces = [];
  let place = 0;
  for (const [part, [text, packed]] of parts.entries()) {
    let at = 0;
    if (part) pieces.push([PARTING, 0, false]);
    for (let k = 0; k < packed.length; k += 4, place++) {
      const [gap, length, share, name] = packed.slice(k, k + 4);
      if (gap) pieces.push([text.slice(at, at + gap), 0, false]);
      at += gap + length;
      pieces.push([text.slice(at - length, at), share / 1000, isMarked(name, place)]);
    }
    if (at < text.length) pieces.push([text.slice(at), 0, false]);
  }
  return pieces;
}

/** The pieces around the first that is marked. */
export function aroundMark(pieces: Pieces): Pieces {
  const marked = Math.max(
    0,
    pieces.findIndex(([, , isMarked]) => isMarked),
  );
  let first = marked;
  for (let room = BEFORE; first > 0 && room > pieces[first - 1][0].length; first--) room -= pieces[first - 1][0].length;
  const cut: Pieces = first ? [[ELLIPSIS, 0, false]] : [];
  let room = LONGEST;
  for (const [text, share, isMarked] of pieces.slice(first)) {
    cut.push([text.length > room ? text.slice(0, room) + ELLIPSIS : text, share, isMarked]);
    room -= text.length;
    if (room < 0) break;
  }
  return cut;
}

/** A word as a sentence names it: a very long one is cut. */
export const shortened = (word: string) => (word.length > LABEL ? word.slice(0, LABEL - 1) + ELLIPSIS : word);

/** The labels of a text in words: whether it is a mistake, and which label it has. */
export const labelOf = ({ classes }: AuditData, { label, decisions }: AuditedText) =>
  label !== null && label !== decisions[0][0] ? classes[label] : null;

/** The decision of each model with and without the words: "positive 93.0 % → negative without it". */
export function decisionWords({ classes }: AuditData, text: AuditedText, [, ...without]: Decided, word: string) {
  return text.decisions.map(([decided, share], model): [string, string] => {
    const name = text.decisions.length > 1 ? `${"AB"[model]}: ` : "";
    const before = `${name}${classes[decided]} ${confidence(share)}`;
    const after = without[model];
    return after === decided
      ? [before, ` with or without ${word}`]
      : [`${before} \u2192 `, `${classes[after]} without ${word}`];
  });
}

/** "corrected" or "broken" if hiding the words turns the first model's decision right or wrong. */
export function verdict({ label, decisions }: AuditedText, [, without]: Decided) {
  const [decided] = decisions[0];
  if (label === null || without === decided) return "";
  return without === label ? "corrected" : decided === label ? "broken" : "";
}
