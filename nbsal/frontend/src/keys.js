// @ts-check
// Keys: what a key means in a run of items. Python's and CSS's word for an item under the keys is "active".

/** @typedef {{ active: number, anchor: number }} Place */

const STEPS = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20 });

/**
 * Where a key leads among `count` items, or null where it leads nowhere.
 * `ranked` lists items from the most to the least important, for `n` and `p`; `lines` finds the item a line away.
 * @param {{ key: string }} event
 * @param {number} active
 * @param {number} count
 * @param {{ ranked?: () => number[], line?: (from: number, step: number) => number }} [ways]
 */
export function step({ key }, active, count, { ranked, line } = {}) {
  const last = count - 1;
  if (count === 0) return null;
  if (key in STEPS) return Math.max(0, Math.min(last, active + STEPS[key]));
  if (key === "Home") return 0;
  if (key === "End") return last;
  if (line && (key === "ArrowDown" || key === "ArrowUp")) return line(active, key === "ArrowDown" ? 1 : -1);
  if (ranked && (key === "n" || key === "p")) {
    const order = ranked();
    const at = order.indexOf(active);
    return order[(at + (key === "n" ? 1 : -1) + order.length) % order.length] ?? null;
  }
  return null;
}
