// The contrast of two colours as WCAG computes it.

type Colour = number[];

export function contrast(first: Colour, second: Colour) {
  const [dark, light] = [luminance(first), luminance(second)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** A colour of some opacity on an opaque background. */
export const over = (colour: Colour, alpha: number, background: Colour) =>
  colour.map((channel, i) => alpha * channel + (1 - alpha) * background[i]);

function luminance(colour: Colour) {
  const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
