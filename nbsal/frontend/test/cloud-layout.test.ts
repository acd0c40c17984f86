import assert from "node:assert/strict";
import { test } from "node:test";
import { type Box, GAP, layOutCloud, SMALLEST, typeSize } from "../src/charts/cloud-layout";

const WIDTHS = [120, 240, 368, 400, 520, 680, 760, 1000, 1400];

/** Boxes as long and short words of falling weight measure at a width. */
const words = (count: number, width: number): Box[] =>
  Array.from({ length: count }, (_, k) => {
    const size = typeSize(1 / (1 + k / 4), width);
    return { width: size * (1 + ((k * 7) % 11)) * 0.5, height: size * (k % 3 ? 0.75 : 1) };
  });

test("no two words come nearer than the gap, and none leaves its field, at any width", () => {
  for (const width of WIDTHS) {
    for (const count of [1, 2, 30, 200]) {
      const boxes = words(count, width);
      const { places, height } = layOutCloud(boxes, width);
      const rects = places.flatMap((place, k) => (place ? [{ ...place, ...boxes[k] }] : []));
      for (const [i, a] of rects.entries()) {
        assert.ok(a.x >= 0 && a.y >= 0 && a.x + a.width <= width + 1e-9 && a.y + a.height <= height + 1e-9);
        for (const b of rects.slice(0, i)) {
          const across = Math.max(a.x - (b.x + b.width), b.x - (a.x + a.width));
          const down = Math.max(a.y - (b.y + b.height), b.y - (a.y + a.height));
          assert.ok(Math.max(across, down) >= GAP - 1e-9, `${width} ${count} ${i}`);
        }
      }
    }
  }
});

test("nearly all of thirty words find room, and the first lies in the middle", () => {
  for (const width of WIDTHS.filter((each) => each >= 360)) {
    const boxes = words(30, width);
    const { places } = layOutCloud(boxes, width);
    assert.ok(places.filter(Boolean).length >= 27, `${width}: ${places.filter(Boolean).length}`);
    assert.ok(Math.abs((places[0]?.x ?? 0) + boxes[0].width / 2 - width / 2) < 1);
  }
});

test("equal words always lie alike", () => {
  assert.deepEqual(layOutCloud(words(60, 500), 500), layOutCloud(words(60, 500), 500));
});

test("a word wider than its field finds no room, and no words need none", () => {
  const { places } = layOutCloud(
    [
      { width: 900, height: 20 },
      { width: 50, height: 20 },
    ],
    300,
  );
  assert.equal(places[0], null);
  assert.ok(places[1]);
  assert.deepEqual(layOutCloud([], 300), { places: [], height: 0 });
});

test("type is in proportion to the share, but legible", () => {
  assert.deepEqual(
    [1, 0.5, 0.1, 0].map((share) => typeSize(share, 600)),
    [42, 21, SMALLEST, SMALLEST],
  );
  assert.ok(typeSize(1, 368) < 42 && typeSize(1, 100) >= 3 * SMALLEST);
});
