// Numbers and words as people read them.

const MINUS = "\u2212";
const NARROW_SPACE = "\u202f"; // does not break

/** A signed score with three significant digits. */
export function formatScore(value: number) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const digits = size >= 1e4 || size < 1e-3 ? value.toExponential(1) : value.toPrecision(3);
  return (value > 0 ? "+" : "") + digits.replace("-", MINUS).replace("e+", "e");
}

export const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

export const formatPercent = (share: number, digits = 1) =>
  `${(100 * share).toFixed(digits).replace("-", MINUS)}${NARROW_SPACE}%`;

/** A count with its noun, which agrees. */
export const plural = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`;
