import assert from "node:assert/strict";
import { test } from "node:test";
import type { Explained, Request } from "../src/live/engine";
import { type LivePage, liveModel } from "../src/live/model";
import type { Statement } from "../src/page/traits";

const METHOD = { name: "gradcam", label: "Grad-CAM" } as LivePage["methods"][number];
const PAGE: LivePage = {
  view: "highlight",
  folder: "",
  name: "a copy",
  labels: ["bad", "good"],
  layer: 1,
  methods: [METHOD],
  function_words: ["the"],
  inputs: ["text", "method", "layer", "target", "tau"],
  invitation: "",
  needs_server: "",
  needs_wasm: "",
  unchecked: "",
};
const STATE = {
  text: "old",
  method: "gradcam",
  layer: 1,
  target: null,
  tau: null,
  status: "ready",
  _rev: 1,
  _choices: {},
};
const EXPLAINED: Explained = {
  pieces: [{ id: 1, name: "new", start: 0, end: 3, part: 0, special: false, type: 0 }],
  begins: [true],
  dropped: 0,
  probabilities: [0.25, 0.75],
  results: [{ target: "good", weights: [0, 1], rows: [Float32Array.of(2)], ties: [Float32Array.of(2)] }],
};

interface Asked {
  parts: string[];
  requests: Request[];
  answer(explained: Explained): void;
  fail(error: Error): void;
}

interface Hidden {
  parts: string[];
  tokens: number[];
  answer(probabilities: number[]): void;
  fail(error: Error): void;
}

function started(state = {}) {
  const asked: Asked[] = [];
  const hidden: Hidden[] = [];
  const held = { ...STATE, ...state };
  const model = liveModel(held, PAGE, {
    explain: (parts, requests) => new Promise((answer, fail) => asked.push({ parts, requests, answer, fail })),
    without: (parts, tokens) => new Promise((answer, fail) => hidden.push({ parts, tokens, answer, fail })),
  });
  const change = (traits: object) => {
    for (const [name, value] of Object.entries(traits)) model.set(name, value);
    model.save_changes();
  };
  return { model, asked, hidden, change };
}

/** Wait until tokens were hidden so many times. */
async function passes(hidden: Hidden[], count: number) {
  while (hidden.length < count) await settled();
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

test("the newest of several texts is answered, those between are dropped", async () => {
  const { model, asked, change } = started({ selection: [1], hover: 1 });
  for (const text of ["a", "ab", "abc"]) change({ text });
  assert.deepEqual([model.get("status"), model.get("selection"), model.get("hover")], ["computing", [], null]);
  asked[0].answer(EXPLAINED);
  await settled();
  assert.deepEqual([model.get("_rev"), model.get("status")], [1, "computing"]); // nothing of an older text is drawn
  asked[1].answer(EXPLAINED);
  await settled();
  assert.deepEqual(
    asked.map(({ parts }) => parts),
    [["a"], ["abc"]],
  );
  assert.deepEqual([model.get("_rev"), model.get("status")], [2, "ready"]);
  assert.equal((model.get("_inputs") as { text: string }).text, "abc");
});

test("an answer is checked pass by pass, what is not checked is said if that takes long", async () => {
  const { model, asked, hidden, change } = started({ _statements: [{ state: "supported" }] });
  const said = () => (model.get("_statements") as Statement[])[0];
  const states = () => [model.get("status"), (model.get("_checking") as { state?: string }).state, said().state];
  change({ text: "a" });
  asked[0].answer(EXPLAINED);
  await settled();
  assert.deepEqual(states(), ["ready", "waiting", "supported"]); // as before, for a moment
  await passes(hidden, 1);
  assert.deepEqual([hidden[0].parts, hidden[0].tokens], [["a"], [0]]);
  while (said().state === "supported") await settled();
  assert.deepEqual(states(), ["ready", "waiting", "unchecked"]);
  hidden[0].answer([0.9, 0.1]);
  await settled();
  assert.deepEqual(states(), ["ready", undefined, "supported"]);
  assert.match(said().evidence_line, /75\.0 \u2192 10\.0/);
});

test("a newer text ends the check of an older one", async () => {
  const { model, asked, hidden, change } = started();
  const [piece, [scored]] = [EXPLAINED.pieces[0], EXPLAINED.results];
  const second = { ...piece, name: "text", start: 4, end: 8 };
  const words = { pieces: [piece, second], begins: [true, true] };
  const explained = { ...EXPLAINED, ...words, results: [{ ...scored, rows: [Float32Array.of(2, 1)] }] };
  change({ text: "new text" });
  asked[0].answer(explained);
  await passes(hidden, 1);
  change({ text: "new text!" });
  hidden[0].answer([0.5, 0.5]);
  for (let i = 0; i < 50; i++) await settled();
  assert.deepEqual([hidden.length, model.get("_statements")], [1, undefined]);
  asked[1].answer(explained);
  await passes(hidden, 2);
  assert.deepEqual(
    hidden.map(({ parts, tokens }) => [...parts, ...tokens]),
    [
      ["new text", 0],
      ["new text!", 0],
    ],
  );
});

test("a check that was cancelled, or is not wanted unasked, is offered, and one that failed says why", async () => {
  const { model, asked, hidden, change } = started({ check: false });
  const press = (ask: string) => model.send({ ask, id: ask });
  change({ text: "a" });
  asked[0].answer(EXPLAINED);
  await settled();
  assert.deepEqual(model.get("_checking"), { state: "offered", passes: 3, note: "3 passes" });
  press("check");
  await passes(hidden, 1);
  press("cancel");
  hidden[0].answer([0.9, 0.1]);
  await settled();
  assert.deepEqual(
    [model.get("_checking"), model.get("status")],
    [{ state: "offered", passes: 3, note: "3 passes" }, "ready"],
  );
  press("check");
  await passes(hidden, 2);
  hidden[1].fail(new Error("no memory"));
  await settled();
  assert.deepEqual(model.get("_checking"), { state: "failed", note: "could not be checked: no memory" });
});

test("display settings ask nothing, a layer that is not chosen is the default", () => {
  const { asked, change } = started({ layer: null, level: "word" });
  change({ level: "token" });
  assert.equal(asked.length, 0);
  change({ target: "bad" });
  assert.deepEqual(asked[0].requests, [{ method: "gradcam", layer: 1, target: "bad", tau: null }]);
});

test("a blank text and a failure are errors, and the next text is asked again", async () => {
  const { model, asked, change } = started();
  change({ text: " \n" });
  await settled();
  assert.deepEqual([asked.length, model.get("status")], [0, "error"]);
  change({ text: "a" });
  asked[0].fail(new Error("no model"));
  await settled();
  assert.deepEqual([model.get("status"), model.get("error")], ["error", "no model"]);
  change({ text: "b" });
  asked[1].answer(EXPLAINED);
  await settled();
  assert.deepEqual([model.get("status"), model.get("error")], ["ready", ""]);
});

test("requests by message are answered as Python does, or refused", async () => {
  const { model, asked, change } = started();
  const replies: unknown[] = [];
  model.on("msg:custom", (message) => replies.push(message));
  change({ text: "a" });
  for (const ask of ["methods", "cancel", "save"]) model.send({ ask, id: ask });
  model.send({}); // a check of the connection
  asked[0].answer(EXPLAINED);
  await settled();
  assert.deepEqual(replies.slice(0, 2), [
    { id: "methods", reply: [METHOD] },
    { id: "cancel", reply: "cancelled" },
  ]);
  assert.match((replies[2] as { error: string }).error, /Python/);
  assert.deepEqual([replies.length, model.get("status"), model.get("_rev")], [3, "cancelled", 1]);
});

test("a chosen method is described to the view", () => {
  const { model, change } = started({ method: "gradxact" });
  change({ method: "gradcam" });
  assert.deepEqual(model.get("_choices"), { method: METHOD });
});
