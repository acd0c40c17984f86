// Numbers and words as people read them.

const MINUS = "\u2212";
const NARROW_SPACE = "\u202f"; // does not break

const WRITTEN_OUT = 3; // up to this exponent of ten either way, numbers need no power of ten
const LEAST = -300; // exponent of the smallest number that is scaled
const SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";

/** A signed score with three digits; the power of ten is that of the `largest` score beside it. */
export function formatScore(value: number, largest = Math.abs(value)) {
  const power = exponent(largest);
  const scaled = value / 10 ** power;
  return `${signed(scaled, 2 - order(Math.abs(scaled)))} ${powerText(power)}`.trimEnd();
}

/** A list of scores to the third digit of the largest, and the power of ten that they share. The same as in Python. */
export function formatScores(values: number[]): { texts: string[]; power: string } {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const power = exponent(largest);
  const digits = 2 - order(largest) + power;
  return { texts: values.map((value) => signed(value / 10 ** power, digits)), power: powerText(power) };
}

const order = (size: number) => (size > 0 && size < Infinity ? Math.max(Math.floor(Math.log10(size)), LEAST) : 0);
const exponent = (largest: number) => (Math.abs(order(largest)) > WRITTEN_OUT ? order(largest) : 0);

const powerText = (power: number) => {
  const digits = Array.from(String(Math.abs(power)), (digit) => SUPERSCRIPTS[Number(digit)]);
  return power ? `\u00d7 10${power < 0 ? "\u207b" : ""}${digits.join("")}` : "";
};

function signed(value: number, digits: number) {
  const text = value.toFixed(Math.max(0, Math.min(digits, 100))).replace("-", MINUS);
  if (!/[1-9]/.test(text)) return "0";
  return value > 0 ? `+${text}` : text;
}

export const formatPercent = (share: number, digits = 1) =>
  `${(100 * share).toFixed(digits).replace("-", MINUS)}${NARROW_SPACE}%`;

/** A count with its noun, which agrees. */
export const plural = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`;

const CERTAIN = 0.9995;

export const confidence = (probability: number) =>
  probability > CERTAIN ? `over ${formatPercent(0.999)}` : formatPercent(probability);

/** A word as a sentence names it: punctuation has quotation marks. */
export const nameInSentence = (text: string) => (/[\p{L}\p{N}]/u.test(text) ? text : `\u201c${text}\u201d`);
