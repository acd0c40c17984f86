// Where the words of a cloud lie: each as near to the middle as it fits on a spiral, without touching another.

export const SMALLEST = 12; // pixels of type
const LARGEST = 42;
const FULL_WIDTH = 520; // pixels of a cloud from which the largest word has full size
const GAP = 5; // pixels between two words
const FILL = 0.52; // share of the area that words cover
const LOWEST = 96; // pixels of height
const HIGHEST = 460;
const STEP = 0.16; // radians along the spiral
const TURNS = 60;

export interface Box {
  width: number;
  height: number;
}

/** Left and top of a box. */
export interface Place {
  x: number;
  y: number;
}

export interface CloudLayout {
  /** Where each box lies; null for one that found no room. */
  places: (Place | null)[];
  height: number;
}

/** The size of type for a share of the largest weight: by its root, so that areas compare. */
export function typeSize(share: number, width: number) {
  const largest = Math.max(2 * SMALLEST, LARGEST * Math.min(1, width / FULL_WIDTH));
  return SMALLEST + (largest - SMALLEST) * Math.sqrt(Math.max(0, Math.min(1, share)));
}

/** Place boxes, the most important first, in a field of that width. Equal boxes always get equal places. */
export function layOutCloud(boxes: Box[], width: number): CloudLayout {
  const area = boxes.reduce((sum, box) => sum + (box.width + GAP) * (box.height + GAP), 0);
  const tallest = Math.max(0, ...boxes.map((box) => box.height));
  const room = Math.max(LOWEST, tallest, Math.min(HIGHEST, area / (FILL * Math.max(1, width))));
  const placed: (Place & Box)[] = [];
  const places = boxes.map((box) => {
    const place = spiral(box, { width, height: room }, placed);
    if (place) placed.push({ ...place, ...box });
    return place;
  });
  const top = Math.min(room, ...placed.map(({ y }) => y));
  const bottom = Math.max(0, ...placed.map(({ y, height }) => y + height));
  return {
    places: places.map((place) => place && { x: place.x, y: place.y - top }),
    height: Math.max(0, bottom - top),
  };
}

/** The first free place on a spiral from the middle of the field, which is as wide as the field is in proportion. */
function spiral(box: Box, field: Box, placed: (Place & Box)[]): Place | null {
  if (box.width > field.width || box.height > field.height) return null;
  const reach = Math.hypot(field.width, field.height) / 2;
  for (let angle = 0; angle < TURNS * 2 * Math.PI; angle += STEP / (1 + angle / 20)) {
    const radius = (reach * angle) / (TURNS * 2 * Math.PI);
    const x = (field.width - box.width) / 2 + radius * Math.cos(angle) * Math.SQRT2 * (field.width / (field.width + field.height)) * 2;
    const y = (field.height - box.height) / 2 + radius * Math.sin(angle) * Math.SQRT2 * (field.height / (field.width + field.height)) * 2;
    const inside = x >= 0 && y >= 0 && x + box.width <= field.width && y + box.height <= field.height;
    if (inside && !placed.some((other) => touches({ x, y, ...box }, other))) return { x, y };
  }
  return null;
}

const touches = (a: Place & Box, b: Place & Box) =>
  a.x < b.x + b.width + GAP && b.x < a.x + a.width + GAP && a.y < b.y + b.height + GAP && b.y < a.y + a.height + GAP;
