// @ts-check
// Offline: a view in a page of its own: a model without Python, and the script run from the page itself.

/**
 * @param {Record<string, any>} state
 */
export function standIn(state) {
  /** @type {Map<string, Set<Function>>} */
  const calls = new Map();
  const emit = (/** @type {string} */ event, /** @type {any[]} */ ...given) => {
    for (const call of [...(calls.get(event) ?? [])]) call(...given);
  };
  return {
    get: (/** @type {string} */ name) => state[name],
    set(/** @type {string} */ name, /** @type {any} */ value) {
      if (state[name] === value) return;
      state[name] = value;
      emit(`change:${name}`);
    },
    save_changes() {},
    on(/** @type {string} */ event, /** @type {Function} */ call) {
      if (!calls.has(event)) calls.set(event, new Set());
      calls.get(event)?.add(call);
    },
    off(/** @type {string} */ event, /** @type {Function} */ call) {
      calls.get(event)?.delete(call);
    },
    send(/** @type {any} */ { id }) {
      queueMicrotask(() => emit("msg:custom", { id, error: "A saved page has no Python to ask." }));
    },
    /** How many listeners there are: none once every view is closed. */
    listeners: () => [...calls.values()].reduce((sum, set) => sum + set.size, 0),
  };
}

/**
 * Bytes out of what `page.py` wrote.
 * @param {any} value
 * @returns {any}
 */
export function revived(value) {
  if (Array.isArray(value)) return value.map(revived);
  if (value === null || typeof value !== "object") return value;
  if ("$bytes" in value) return new DataView(Uint8Array.from(atob(value.$bytes), (c) => c.charCodeAt(0)).buffer);
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, revived(inner)]));
}

/**
 * @param {string} script the view's module
 * @param {Record<string, any>} state
 * @param {HTMLElement} el
 */
export async function show(script, state, el) {
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const { default: view } = await import(url);
  URL.revokeObjectURL(url);
  const model = standIn(revived(state));
  return { model, close: await view.render({ model, el }) };
}
