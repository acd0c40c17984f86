// How strongly scores are coloured: orange for the target; blue, underlined, against it. The same as in Python.

export const FAINT = 0.1; // strength below which a score against the target is not underlined
export const BARE = 0.02; // strength below which a score is not coloured

/** `signed`: also colour scores against the target; `clip`: the share of the largest score that has full colour. */
export interface ColourScale {
  signed: boolean;
  gamma: number;
  clip: number;
}

/** The strength of a colour, from 0 to 1, and its side. */
export interface Shade {
  strength: number;
  against: boolean;
  faint: boolean;
}

export const UNSHADED: Shade = { strength: 0, against: false, faint: false };
export const LINEAR: ColourScale = { signed: true, gamma: 1, clip: 1 };

/** How strongly a score is coloured, from 0 to 1. */
export function strength(score: number, largest: number, { signed, gamma, clip }: ColourScale) {
  if (!(largest > 0) || (score < 0 && !signed)) return 0;
  return Math.min(1, Math.abs(score) / (largest * clip)) ** gamma;
}

export function shade(score: number, largest: number, scale = LINEAR): Shade {
  const value = strength(score, largest, scale);
  if (value < BARE) return UNSHADED;
  return { strength: Math.round(1000 * value) / 1000, against: score < 0, faint: value < FAINT };
}

/** Show a shade on an element, whose style sheet colours it. */
export function applyShade(element: HTMLElement, { strength, against, faint }: Shade) {
  element.style.setProperty("--s", String(strength));
  element.classList.toggle("nbsal-against", against);
  element.classList.toggle("nbsal-faint", faint);
}
