// Scores as background colours: orange for the target; blue, underlined, against it. The same as in Python.

export const FOR = [230, 126, 16];
export const AGAINST = [40, 118, 200];
export const STRONGEST = 0.72;
export const FAINT = 0.05;

/** `signed`: also colour scores against the target; `clip`: the share of the largest score that has full colour. */
export interface ColourScale {
  signed: boolean;
  gamma: number;
  clip: number;
}

/** A background colour, and whether the score is marked as against the target. */
export interface Shade {
  css: string;
  against: boolean;
}

export const UNSHADED: Shade = { css: "", against: false };
export const LINEAR: ColourScale = { signed: true, gamma: 1, clip: 1 };

/** How strongly a score is coloured, from 0 to 1. */
export function strength(score: number, largest: number, { signed, gamma, clip }: ColourScale) {
  if (!(largest > 0) || (score < 0 && !signed)) return 0;
  return Math.min(1, Math.abs(score) / (largest * clip)) ** gamma;
}

export function shade(score: number, largest: number, scale = LINEAR): Shade {
  const alpha = STRONGEST * strength(score, largest, scale);
  const [r, g, b] = score < 0 ? AGAINST : FOR;
  const css = alpha < 0.005 ? "" : `rgba(${r}, ${g}, ${b}, ${alpha.toFixed(2)})`;
  return { css, against: score < 0 && alpha >= FAINT };
}
