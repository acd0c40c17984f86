// A view in a live page: a model that answers from a worker, or from the page itself where it may start none. The worker
// runs this script too.

import kernel from "../../kernel/kernel.wasm";
import { h } from "../page/dom";
import { offlineModel, show as showOffline, type View } from "../page/offline";
import type { Decision } from "../page/traits";
import { answerer } from "./answerer";
import type { Explained } from "./engine";
import type { Answer, Asked, Question } from "./messages";
import { type LiveEngine, type LivePage, liveModel } from "./model";

type State = Record<string, unknown>;

const inPage = "document" in globalThis;
const source = inPage ? document.currentScript?.textContent : null;
if (!inPage) {
  const page = globalThis as unknown as Worker; // which is what a worker sends its answers to
  const answer = answerer((message) => page.postMessage(message));
  page.onmessage = ({ data }: MessageEvent<Question>) => answer(data);
}

/** Show a view that answers; where the page cannot run the model, its saved explanation and the reason. */
export async function show(view: View | string, state: State, el: HTMLElement, page: LivePage) {
  const why = obstacle(page);
  const model = (live: State) => (why ? offlineModel(live) : liveModel(invited(live, page), page, asker(page)));
  const shown = await showOffline(view, { ...state, _live: !why }, el, model);
  const note = why || (isSecureContext ? "" : page.unchecked);
  if (note) el.before(h("p", { class: "nbsal-live-note", role: "note" }, note));
  return shown;
}

/** The traits of a view that says what its reader can do. */
function invited(state: State, { invitation }: LivePage): State {
  const result = state._result as Partial<Decision>;
  return { ...state, _result: { ...result, notes: [...(result.notes ?? []), invitation] } };
}

/** Why the model cannot run here, or "". */
function obstacle({ needs_server, needs_wasm }: LivePage) {
  if (location.protocol === "file:") return needs_server;
  try {
    new WebAssembly.Module(kernel); // which also fails where the policy of the page forbids it
  } catch {
    return needs_wasm;
  }
  return "Segmenter" in Intl ? "" : needs_wasm;
}

interface Pending {
  question: Question;
  receive(answer: Answer): void;
}

/** Asks the worker, which starts with the first question. */
function asker({ folder }: LivePage): LiveEngine {
  const address = new URL(`${folder}/`, document.baseURI).href;
  const pending = new Map<number, Pending>();
  const receive = (answer: Answer) => pending.get(answer.number)?.receive(answer);
  let send: ((question: Question) => void) | null = null;
  let count = 0;
  const start = () => {
    try {
      const url = URL.createObjectURL(new Blob([source ?? ""], { type: "text/javascript" }));
      const worker = new Worker(url);
      worker.onmessage = ({ data }: MessageEvent<Answer>) => receive(data);
      worker.onerror = answerHere;
      return (question: Question) => worker.postMessage(question);
    } catch {
      return answerer(receive);
    }
  };
  /** Answer without a worker: a policy without blob: ends it before it starts. */
  const answerHere = () => {
    send = answerer(receive);
    for (const { question } of pending.values()) send(question);
  };
  const ask = (asked: Asked, report: (share: number) => void = () => {}) =>
    new Promise<Answer>((resolve, reject) => {
      send ??= start();
      const question: Question = { ...asked, number: count++, folder: address };
      pending.set(question.number, {
        question,
        receive(answer) {
          if (answer.share !== undefined) return report(answer.share);
          pending.delete(question.number);
          if (answer.error === undefined) resolve(answer);
          else reject(new Error(answer.error));
        },
      });
      send(question);
    });
  return {
    explain: async (parts, requests, report) => (await ask({ parts, requests }, report)).explained as Explained,
    without: async (parts, hidden) => (await ask({ parts, hidden })).probabilities as number[],
  };
}
