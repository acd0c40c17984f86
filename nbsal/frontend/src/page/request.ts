// Requests to Python by message; each waits for the reply with its id.

import type { Message, Model, Request } from "./context";
import { onAbort } from "./dom";

const CLOSED = "The view was closed.";
export const STOPPED = "Python has stopped \u00b7 run the cell again to continue";

interface Pending {
  resolve(reply: unknown): void;
  reject(error: Error): void;
}

export function requests(model: Pick<Model<never>, "on" | "off" | "send">, signal: AbortSignal): Request {
  const pending = new Map<string, Pending>();
  const view = Math.random().toString(36).slice(2); // replies reach every view of the model
  let count = 0;

  const onMessage = ({ id, reply, error }: Message) => {
    const request = pending.get(id);
    pending.delete(id);
    if (error === undefined) request?.resolve(reply);
    else request?.reject(new Error(error));
  };
  model.on("msg:custom", onMessage);
  onAbort(signal, () => {
    model.off("msg:custom", onMessage);
    for (const { reject } of pending.values()) reject(new Error(CLOSED));
    pending.clear();
  });

  return (name, settings = {}) =>
    new Promise((resolve, reject) => {
      const id = `${view}-${count++}`;
      pending.set(id, { resolve: resolve as Pending["resolve"], reject });
      try {
        model.send({ ...settings, ask: name, id });
      } catch {
        reject(new Error(STOPPED));
      }
    });
}
