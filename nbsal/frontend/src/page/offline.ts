// A view in a saved page: a model without Python, and the view's script run from the page itself.

import type { Message, Model } from "./context";

const NEEDS_PYTHON = "This needs Python, which a saved page does not have.";

type State = Record<string, unknown>;
type Listener = (message: Message) => void;
type OfflineModel = Model<State> & {
  emit(event: string, message?: Message): void;
  /** The number of listeners: zero once every view is closed. */
  listeners(): number;
};
interface Host {
  model: Model<State>;
  el: HTMLElement;
  /** Aborted when the view is closed. */
  signal: AbortSignal;
}
export type View = { render(host: Host): (() => void) | undefined };

export function offlineModel(state: State): OfflineModel {
  const listeners = new Map<string, Set<Listener>>();
  const emit = (event: string, message: Message = { id: "" }) => {
    for (const listener of [...(listeners.get(event) ?? [])]) listener(message);
  };
  return {
    emit,
    get: (name: string) => state[name],
    set(name: string, value: unknown) {
      if (state[name] === value) return;
      state[name] = value;
      emit(`change:${name}`);
    },
    save_changes() {},
    on(event: string, listener: Listener) {
      if (!listeners.has(event)) listeners.set(event, new Set());
      listeners.get(event)?.add(listener);
    },
    off(event: string, listener: Listener) {
      listeners.get(event)?.delete(listener);
    },
    send(content: { id?: string }) {
      queueMicrotask(() => emit("msg:custom", { id: content.id ?? "", error: NEEDS_PYTHON }));
    },
    listeners: () => [...listeners.values()].reduce((sum, set) => sum + set.size, 0),
  };
}

/** State as Python wrote it into the page, with its bytes restored. */
export function restoreBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(restoreBytes);
  if (value === null || typeof value !== "object") return value;
  if ("$bytes" in value)
    return new DataView(Uint8Array.from(atob(String(value.$bytes)), (c) => c.charCodeAt(0)).buffer);
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, restoreBytes(inner)]));
}

/**
 * Show a view, given itself or the source of its module, its state, and what makes its model. What `el` contains, the
 * static HTML of a page, stays there until the view has been drawn.
 */
export async function show<M extends Model<State>>(
  source: View | string,
  state: State,
  el: HTMLElement,
  modelOf: (state: State) => M = offlineModel as unknown as (state: State) => M,
) {
  const view = typeof source === "string" ? await imported(source) : source;
  const model = modelOf(restoreBytes(state) as State);
  const replaced = [...el.childNodes];
  el.replaceChildren(); // in one step with the drawing: nothing is painted between them
  const controller = new AbortController();
  try {
    const close = view.render({ model, el, signal: controller.signal });
    return {
      model,
      close() {
        controller.abort();
        close?.();
      },
    };
  } catch (error) {
    el.replaceChildren(...replaced);
    throw error;
  }
}

async function imported(source: string): Promise<View> {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const module = (await import(url)) as { default: View };
  URL.revokeObjectURL(url);
  return module.default;
}
