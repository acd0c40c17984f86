import assert from "node:assert/strict";
import { test } from "node:test";
import { commonEnds, marksAfterEdit } from "../src/text/edited";

const mark = (start: number, end: number, part = 0) => ({ part, start, end, tokens: [start] });

test("common ends never overlap", () => {
  assert.deepEqual(commonEnds("aaa", "aa"), [2, 0]);
  assert.deepEqual(commonEnds("warm film", "warm new film"), [5, 4]);
  assert.deepEqual(commonEnds("", "x"), [0, 0]);
});

test("words around an edit keep their marks, edited ones lose them", () => {
  const marks = [mark(0, 4), mark(5, 9)];
  assert.deepEqual(marksAfterEdit(marks, ["warm film"], ["warm new film"]), [
    mark(0, 4),
    { ...mark(5, 9), start: 9, end: 13 },
  ]);
  assert.deepEqual(marksAfterEdit(marks, ["warm film"], ["warm fiXlm"]), [mark(0, 4)]);
  assert.deepEqual(marksAfterEdit(marks, ["warm film"], ["warm film"]), marks);
});

test("each text of a pair is edited by itself, and a text that is gone has no marks", () => {
  const marks = [mark(0, 1), mark(0, 3, 1)];
  assert.deepEqual(marksAfterEdit(marks, ["A", "dog"], ["AB", "dog"]), [mark(0, 1), mark(0, 3, 1)]);
  assert.deepEqual(marksAfterEdit(marks, ["A", "dog"], ["A"]), [mark(0, 1)]);
});
