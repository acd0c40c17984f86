// Where the words of a cloud lie: each as near to the middle as it fits on a spiral, without touching another.

export const SMALLEST = 12; // pixels of type
const LARGEST = 42;
const FULL_WIDTH = 520; // pixels of a cloud from which the largest word has full size
export const GAP = 5; // pixels between two words
const FILL = 0.52; // share of the area that words cover
const LOWEST = 96; // pixels of height
const HIGHEST = 460;
const TURN = 7; // pixels between two turns of the spiral
const STEP = 5; // pixels between two places on it

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

/** The size of type for a share of the largest weight: in proportion, but legible. */
export function typeSize(share: number, width: number) {
  const largest = Math.max(3 * SMALLEST, LARGEST * Math.min(1, width / FULL_WIDTH));
  return Math.max(SMALLEST, largest * share);
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

/** The first free place on a spiral from the middle of the field, which is as flat as the field. */
function spiral(box: Box, field: Box, placed: (Place & Box)[]): Place | null {
  const [right, bottom] = [field.width - box.width, field.height - box.height];
  if (right < 0 || bottom < 0) return null;
  const flatness = Math.sqrt(field.width / field.height);
  const reach = Math.sqrt((field.width * field.height) / 2);
  let hit: (Place & Box) | undefined; // the box that was in the way is often in the way again
  let angle = 0;
  for (let radius = 0; radius <= reach; radius = (TURN * angle) / (2 * Math.PI)) {
    const x = right / 2 + radius * Math.cos(angle) * flatness;
    const y = bottom / 2 + (radius * Math.sin(angle)) / flatness;
    angle += STEP / Math.max(radius, STEP);
    if (x < 0 || y < 0 || x > right || y > bottom) continue;
    const here = { x, y, ...box };
    if (hit && touches(here, hit)) continue;
    hit = placed.find((other) => touches(here, other));
    if (!hit) return { x, y };
  }
  return null;
}

const touches = (a: Place & Box, b: Place & Box) =>
  a.x < b.x + b.width + GAP && b.x < a.x + a.width + GAP && a.y < b.y + b.height + GAP && b.y < a.y + a.height + GAP;
