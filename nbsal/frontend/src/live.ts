// A view in a live page: its script run from the page itself, and a model that answers from a worker.

import kernel from "../kernel/kernel.wasm";
import { h } from "./dom";
import type { Answer, Question } from "./live/messages";
import { type Explain, type LivePage, liveModel } from "./live/model";
import source from "./live/worker?script";
import { offlineModel, show as showOffline } from "./offline";

type State = Record<string, unknown>;

/** Show a view that answers; where the page cannot run the model, its saved explanation and the reason. */
export async function show(script: string, state: State, el: HTMLElement, page: LivePage) {
  const why = obstacle(page);
  if (!why) return showOffline(script, { ...state, _live: true }, el, (live) => liveModel(live, page, asker(page)));
  el.before(h("p", { class: "nbsal-live-note", role: "note" }, why));
  return showOffline(script, { ...state, _live: false }, el, offlineModel);
}

/** Why the model cannot run here, or "". */
function obstacle({ needs_server, needs_wasm }: LivePage) {
  if (location.protocol === "file:") return needs_server;
  const runs = typeof WebAssembly === "object" && WebAssembly.validate(kernel) && "Segmenter" in Intl;
  return runs ? "" : needs_wasm;
}

/** A function that asks the worker, which starts with the first question. */
function asker({ folder }: LivePage): Explain {
  const address = new URL(`${folder}/`, document.baseURI).href;
  const pending = new Map<number, (answer: Answer) => void>();
  let worker: Worker | null = null;
  let count = 0;
  const start = () => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const started = new Worker(url);
    started.onmessage = ({ data }: MessageEvent<Answer>) => pending.get(data.number)?.(data);
    return started;
  };
  return (parts, requests, report) =>
    new Promise((resolve, reject) => {
      worker ??= start();
      const number = count++;
      pending.set(number, ({ share, explained, error }) => {
        if (share !== undefined) return report(share);
        pending.delete(number);
        if (explained) resolve(explained);
        else reject(new Error(error));
      });
      const question: Question = { number, folder: address, parts, requests };
      worker.postMessage(question);
    });
}
