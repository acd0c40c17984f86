// @ts-check
// Request: asks Python by message and waits for the reply with the same id.

import { ended } from "./dom.js";

export const GONE = "Python is gone: run the cell again.";

/** @typedef {import("@anywidget/types").AnyModel<any>} Model */

/**
 * @param {Model} model
 * @param {AbortSignal} signal
 */
export function requests(model, signal) {
  /** @type {Map<string, { resolve: (reply: any) => void, reject: (error: Error) => void }>} */
  const pending = new Map();
  const view = Math.random().toString(36).slice(2); // replies reach every view of the model
  let count = 0;

  /** @param {{ id: string, reply?: any, error?: string }} message */
  const heard = ({ id, reply, error }) => {
    const waiting = pending.get(id);
    if (!waiting) return;
    pending.delete(id);
    error === undefined ? waiting.resolve(reply) : waiting.reject(new Error(error));
  };
  model.on("msg:custom", heard);
  ended(signal, () => {
    model.off("msg:custom", heard);
    for (const { reject } of pending.values()) reject(new Error("The view was closed."));
    pending.clear();
  });

  /**
   * @param {string} name
   * @param {Record<string, any>} [settings]
   * @returns {Promise<any>}
   */
  return (name, settings = {}) =>
    new Promise((resolve, reject) => {
      const id = `${view}-${count++}`;
      pending.set(id, { resolve, reject });
      try {
        model.send({ ...settings, ask: name, id });
      } catch {
        reject(new Error(GONE));
      }
    });
}
