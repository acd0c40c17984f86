// The model of a view in a live page: it stands where Python does, and answers from a model that runs in the page.

import type { Message, Model } from "../page/context";
import { offlineModel } from "../page/offline";
import type { MethodChoice, Statement, Text } from "../page/traits";
import { type Answered, partsOf, refusal, requestsOf, traitsOf, type ViewName } from "./answers";
import { checker } from "./checker";
import type { Explained, Request } from "./engine";
import { formatPercent } from "./format";

type State = Record<string, unknown>;

/** What Python writes into a live page. */
export interface LivePage {
  view: ViewName;
  /** The model's files, beside the page. */
  folder: string;
  /** Of the copy of the model. */
  name: string;
  labels: string[];
  /** The layer where none is chosen. */
  layer: number;
  /** Those that the page can run. */
  methods: MethodChoice[];
  /** Words that are not named where others are there, in lower case. */
  function_words: string[];
  /** The traits whose change needs a new result. */
  inputs: string[];
  /** What the reader can do, and who then answers. */
  invitation: string;
  /** What is said where the page was opened from disk, and where it cannot run the model. */
  needs_server: string;
  needs_wasm: string;
  /** What is said where the browser cannot check the files. */
  unchecked: string;
}

/** A model that runs in the page. */
export interface LiveEngine {
  explain(parts: string[], requests: Request[], report: (share: number) => void): Promise<Explained>;
  /** The probability of each class without some tokens. */
  without(parts: string[], hidden: number[]): Promise<number[]>;
}

const MOST_PROGRESS = 0.99; // until the result is there
const SETTINGS = ["method", "layer", "target", "tau"]; // that Compare has twice

export function liveModel(state: State, page: LivePage, engine: LiveEngine): Model<State> {
  const model = offlineModel(state);
  const named = {
    name: page.name,
    labels: page.labels,
    methods: Object.fromEntries(page.methods.map(({ name, label }) => [name, label])),
    functionWords: new Set(page.function_words),
  };
  const inputs = () => Object.fromEntries(page.inputs.map((name) => [name, state[name]]));
  const isSame = (first: State, second: State) => JSON.stringify(first) === JSON.stringify(second);
  const setAll = (traits: State) => {
    for (const [name, value] of Object.entries(traits)) model.set(name, value);
  };
  const checks = checker(model, engine.without);
  let requested = inputs();
  let shown: Answered | null = null; // in this page
  let latest = 0; // the number of the newest request
  let waits = false;
  let runs = false;

  const request = () => {
    requested = inputs();
    shown = null;
    checks.end();
    latest++;
    waits = true;
    setAll({ error: "", progress: null, status: "computing" });
    void next();
  };
  /** Answer the newest request; those that were replaced while another was answered are dropped. */
  const next = async () => {
    if (runs || !waits) return;
    [runs, waits] = [true, false];
    const [number, values, start] = [latest, requested, performance.now()];
    const isLatest = () => number === latest;
    try {
      const answered = await answer(values);
      if (isLatest()) display(answered, values, (performance.now() - start) / 1000);
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      if (isLatest()) {
        checks.end({});
        setAll({ error: text, progress: null, status: "error" });
      }
    }
    runs = false;
    void next();
  };
  const answer = async (values: State) => {
    const text = values.text as Text;
    const why = refusal(text);
    if (why) throw new Error(why);
    const [parts, requests] = [partsOf(text), requestsOf(page.view, values, page.layer)];
    const report = (share: number) => {
      model.set("_left", formatPercent(Math.min(share, MOST_PROGRESS), 0));
      model.set("progress", share < 1 ? share : null);
    };
    const explained = await engine.explain(parts, requests, report);
    return { parts, requests, explained, named };
  };
  const display = (answered: Answered, values: State, seconds: number) => {
    shown = answered;
    const { _statements, ...traits } = traitsOf(page.view, answered);
    setAll({ ...traits, _inputs: values });
    setAll({ _rev: (state._rev as number) + 1 }); // a view redraws once, when all is there
    setAll({ _seconds: `Up to date \u00b7 ${seconds.toFixed(1)} s`, progress: null, status: "ready" });
    check(_statements);
  };
  /** Say what is known, and check it; Compare says only how far two explanations agree. */
  const check = (said?: Statement[], asked = state.check !== false && page.view !== "compare") => {
    if (!shown) return;
    const last = shown.explained.results[0].rows.length - 1;
    const row = page.view === "layers" ? Math.min((state.layer as number | null) ?? last, last) : 0;
    checks.check(shown, row, asked, said);
  };

  const describe = (trait: string, choices: string) => {
    const method = page.methods.find(({ name }) => name === state[trait]) ?? null;
    model.set(choices, { ...(state[choices] as State), method });
  };
  const swap = () => {
    for (const name of [...SETTINGS, "_choices"]) {
      const other = name === "_choices" ? "_other_choices" : `other_${name}`;
      const [first, second] = [state[name], state[other]];
      setAll({ [name]: second, [other]: first });
    }
    request();
    return "swapped";
  };
  const cancel = () => {
    if (shown) {
      checks.offer();
      return "cancelled";
    }
    latest++;
    waits = false;
    checks.end({});
    setAll({ progress: null, status: "cancelled" });
    return "cancelled";
  };
  const replies: Record<string, () => unknown> = {
    methods: () => page.methods,
    skip_pause: () => "skipped",
    check() {
      check(undefined, true);
      return "checking";
    },
    cancel,
    swap,
  };

  return {
    ...model,
    set(name: string, value: unknown) {
      model.set(name, value);
      if (name === "text") setAll({ selection: [], hover: null }); // positions in another text mean nothing in it
      if (name === "layer" && page.view === "layers") check();
      if (name === "method") describe("method", "_choices");
      if (name === "other_method") describe("other_method", "_other_choices");
    },
    save_changes() {
      if (!isSame(inputs(), requested)) request();
    },
    send({ ask, id }: { ask?: string; id?: string }) {
      if (ask === undefined || id === undefined) return; // the view only checks the connection
      const reply = replies[ask];
      if (!reply) return model.send({ id });
      const message: Message = { id, reply: reply() };
      queueMicrotask(() => model.emit("msg:custom", message));
    },
  } as Model<State>;
}
