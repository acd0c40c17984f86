// Marks of a text that was edited after it was explained: words before and after the edit keep their scores.

import type { Mark } from "./marks";

/** The number of characters that two texts begin with alike, and then the number that they end with alike. */
export function commonEnds(before: string, after: string): [number, number] {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < shorter - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  return [head, tail];
}

/** The marks that an edit of the texts left whole, at their new places. */
export function marksAfterEdit(marks: Mark[], before: string[], after: string[]): Mark[] {
  const ends = before.map((text, part) => commonEnds(text, after[part] ?? ""));
  return marks.flatMap((mark) => {
    const { part, start, end, around: [left, right] = [0, 0] } = mark; // of an edited word no part is left
    if (after[part] === undefined) return [];
    const [head, tail] = ends[part];
    if (end + right <= head) return [mark];
    if (start - left < before[part].length - tail) return [];
    const shift = after[part].length - before[part].length;
    return [{ ...mark, start: start + shift, end: end + shift }];
  });
}
