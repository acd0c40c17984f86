import assert from "node:assert/strict";
import { test } from "node:test";
import type { AuditData, AuditedText } from "../src/page/audit-traits";
import { aroundMark, decisionWords, piecesOf, verdict } from "../src/panels/audit-data";

const text: AuditedText = {
  label: 1,
  decisions: [[0, 0.9]],
  parts: [
    ["A dull film.", [0, 1, 0, -1, 1, 4, -1000, 3, 1, 4, 250, -1]],
    ["Dull!", [0, 4, 500, 3]],
  ],
};
const audit = { classes: ["negative", "positive"] } as AuditData;

test("a text is unpacked into its words and what is between them", () => {
  const pieces = piecesOf(text, (name, place) => name === 3 && place > 1);
  assert.equal(pieces.map(([piece]) => piece).join(""), "A dull film. | Dull!");
  assert.deepEqual(pieces[2], ["dull", -1, false]);
  assert.deepEqual(pieces[7], ["Dull", 0.5, true]);
});

test("a long text is cut around the first marked word", () => {
  const words = Array.from({ length: 200 }, (_, k): [string, number, boolean] => [`word${k} `, 0, k === 100]);
  const pieces = aroundMark(words);
  const marked = pieces.findIndex(([, , isMarked]) => isMarked);
  assert.equal(pieces[marked][0], "word100 ");
  assert.ok(marked > 5 && pieces[0][0] === "\u2026" && (pieces.at(-1)?.[0].endsWith("\u2026") ?? false));
  const length = pieces.map(([piece]) => piece).join("").length;
  assert.ok(length > 200 && length < 260);
  assert.deepEqual(aroundMark(words.slice(99, 102)), words.slice(99, 102));
});

test("a decision is told with and without a word", () => {
  assert.deepEqual(decisionWords(audit, text, [5, 1], "it"), [["negative 90.0\u202f% \u2192 ", "positive without it"]]);
  assert.deepEqual(decisionWords(audit, text, [5, 0], "it"), [["negative 90.0\u202f%", " with or without it"]]);
  assert.equal(verdict(text, [5, 1]), "corrected");
  assert.equal(verdict({ ...text, label: 0 }, [5, 1]), "broken");
  assert.equal(verdict({ ...text, label: null }, [5, 1]) + verdict(text, [5, 0]), "");
});
