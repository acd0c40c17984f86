import assert from "node:assert/strict";
import { test } from "node:test";
import { history } from "../src/controls/undo";

interface State {
  text: string;
  method: string;
  toggled: number[];
}

test("steps are taken back in reverse order", () => {
  const past = history<State>();
  past.record({ method: "gradcam" }, 0);
  past.record({ toggled: [1] }, 10);
  assert.equal(past.size(), 2);
  assert.deepEqual(past.pop(), { toggled: [1] });
  assert.deepEqual(past.pop(), { method: "gradcam" });
  assert.equal(past.pop(), null);
});

test("keys typed in a row are one step, with the text before them", () => {
  const past = history<State>();
  past.record({ text: "A" }, 0, "text");
  past.record({ text: "AB" }, 90, "text");
  past.record({ text: "ABC" }, 900, "text");
  assert.equal(past.size(), 1);
  past.record({ text: "ABCD" }, 3000, "text");
  assert.deepEqual([past.pop(), past.pop()], [{ text: "ABCD" }, { text: "A" }]);
});

test("another change ends a run of keys, and changes of other traits are never one step", () => {
  const past = history<State>();
  past.record({ text: "A" }, 0, "text");
  past.record({ toggled: [] }, 10, "text");
  past.record({ toggled: [1] }, 20, "text");
  past.record({ text: "AB" }, 30, "text");
  assert.equal(past.size(), 4);
});

test("only the last steps are remembered", () => {
  const past = history<State>(3);
  for (let i = 0; i < 5; i++) past.record({ toggled: [i] }, i);
  assert.equal(past.size(), 3);
  past.pop();
  past.pop();
  assert.deepEqual(past.pop(), { toggled: [2] });
});
