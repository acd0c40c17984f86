import assert from "node:assert/strict";
import { test } from "node:test";
import { sender } from "../src/page/connection";
import { offlineModel } from "../src/page/offline";

/** What an idle view hears of its connection after `lose` has changed its model. */
async function stopped(lose: (model: ReturnType<typeof idleModel>) => void) {
  const closing = new AbortController();
  const model = idleModel();
  let count = 0;
  sender(model as never, true, closing.signal, { isWaiting: () => false, onStopped: () => count++ });
  lose(model);
  await new Promise((resolve) => setTimeout(resolve, 500));
  closing.abort();
  return count > 0;
}

function idleModel() {
  const model = { ...offlineModel({}), kernel: { isDisposed: false } };
  let tell = () => {};
  const on = (event: string, call: () => void) => {
    if (event === "comm_live_update") tell = call;
  };
  return { ...model, on, restart: () => tell(), widget_manager: { kernel: model.kernel } };
}

test("an idle view notices that its kernel has died or was restarted", async () => {
  assert.equal(await stopped(() => {}), false);
  const send = () => {
    throw new Error("Cannot send");
  };
  const restart = (model: ReturnType<typeof idleModel>) => {
    model.restart();
    model.send = send; // a moment later
  };
  assert.equal(await stopped(restart), true);
  assert.equal(await stopped(({ kernel }) => Object.assign(kernel, { isDisposed: true })), true);
});
