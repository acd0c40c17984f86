import assert from "node:assert/strict";
import { test } from "node:test";
import { shuffler } from "../src/live/random";

/** What numpy draws for rows of so many tokens, 100, 101, ...: three times the first eight of the numbers from 3 on. */
const DRAWN: Record<number, number[][]> = {
  4: [[3], [3], [3]],
  5: [
    [3, 4],
    [3, 4],
    [3, 4],
  ],
  17: [
    [11, 15, 10, 9, 7, 4, 14, 6],
    [6, 7, 3, 13, 9, 5, 4, 10],
    [3, 14, 16, 13, 6, 5, 10, 4],
  ],
  40: [
    [18, 19, 36, 14, 15, 9, 20, 22],
    [30, 7, 19, 23, 5, 10, 17, 14],
    [33, 4, 37, 5, 38, 16, 32, 3],
  ],
  300: [
    [3, 28, 61, 121, 165, 269, 8, 79],
    [102, 63, 40, 273, 193, 168, 161, 205],
    [267, 151, 47, 84, 163, 149, 77, 226],
  ],
};

test("a text is shuffled as numpy does it, whatever its length", () => {
  for (const [length, draws] of Object.entries(DRAWN)) {
    const ids = Array.from({ length: Number(length) }, (_, i) => 100 + i);
    const shuffle = shuffler(
      ids,
      ids.map(() => 0),
    );
    const numbers = ids.map((id) => id - 100).slice(3);
    assert.deepEqual(
      [shuffle(numbers), shuffle(numbers), shuffle(numbers)].map((row) => row.slice(0, 8)),
      draws,
    );
  }
});
