import assert from "node:assert/strict";
import { test } from "node:test";
import type { Message } from "../src/page/context";
import { offlineModel } from "../src/page/offline";
import { requests } from "../src/page/request";

interface Request {
  ask: string;
  kind?: string;
  id: string;
}

/** A model whose Python gives this answer to every request. */
function answeringModel(answer: Omit<Message, "id">) {
  const model = offlineModel({});
  const sent: Request[] = [];
  let listener: (message: Message) => void = () => {};
  const on = (event: string, call: (message: Message) => void) => {
    if (event === "msg:custom") listener = call;
    model.on(event, call);
  };
  const send = (content: object) => {
    const request = content as Request;
    sent.push(request);
    queueMicrotask(() => listener({ id: "of another view", reply: "wrong" }));
    queueMicrotask(() => listener({ id: request.id, ...answer }));
  };
  return { model: { ...model, on, send }, sent };
}

test("a request is answered by the reply with its id", async () => {
  const { model, sent } = answeringModel({ reply: 42 });
  const ask = requests(model, new AbortController().signal);
  assert.deepEqual(await Promise.all([ask("save", { kind: "csv" }), ask("save")]), [42, 42]);
  assert.equal(sent[0].ask, "save");
  assert.equal(sent[0].kind, "csv");
  assert.notEqual(sent[0].id, sent[1].id);
});

test("an error in Python rejects the request", async () => {
  const { model } = answeringModel({ error: "no luck" });
  await assert.rejects(requests(model, new AbortController().signal)("save"), /no luck/);
});

test("closing the view rejects pending requests and removes the listener", async () => {
  const model = { ...offlineModel({}), send: () => {} };
  const controller = new AbortController();
  const pending = requests(model, controller.signal)("save");
  assert.equal(model.listeners(), 1);
  controller.abort();
  await assert.rejects(pending, /closed/);
  assert.equal(model.listeners(), 0);
});

test("a closed connection rejects the request", async () => {
  const send = () => {
    throw new Error("Cannot send");
  };
  const ask = requests({ ...offlineModel({}), send }, new AbortController().signal);
  await assert.rejects(ask("save"), /Python has stopped/);
});

test("a saved page says that there is no Python", async () => {
  const ask = requests(offlineModel({}), new AbortController().signal);
  await assert.rejects(ask("save"), /saved page/);
});
