// Which typed texts a browser draws without a pause: the time for a letter grows with the square of its marks.

const MARKS = 100; // combining marks in a row
const LETTERS = 10_000; // in a row, but for ideographs, which have no spaces between words

const MANY_MARKS = new RegExp(String.raw`\p{M}{${MARKS + 1}}`, "u");
const LONG_WORD = new RegExp(String.raw`(?:(?!\p{Script=Han})[\p{L}\p{N}]){${LETTERS + 1}}`, "u");
const MARKED = "The text has too many combining marks in a row";
const LONG = "The text has a word of too many letters";
const ADVICE = "Browsers draw such a text too slowly, so the text before it was restored.";

/** Why a text is not taken, or "". */
export function undrawable(texts: string[]): string {
  if (texts.some((text) => MANY_MARKS.test(text))) return `${MARKED}. ${ADVICE}`;
  if (texts.some((text) => LONG_WORD.test(text))) return `${LONG}. ${ADVICE}`;
  return "";
}
