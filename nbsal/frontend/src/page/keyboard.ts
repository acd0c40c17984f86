// Keyboard navigation in a list of items. The item that keys act on is called "active" in TypeScript and CSS.

const STEPS: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20 };

interface Navigation {
  /** Items from the most to the least important, for `n` and `p`. */
  ranked?: () => number[];
  /** The item one line below (1) or above (-1) another. */
  line?: (from: number, direction: 1 | -1) => number;
}

/** The item that a key leads to, or null for any other key. */
export function nextItem({ key }: { key: string }, active: number, count: number, { ranked, line }: Navigation = {}) {
  if (count === 0) return null;
  if (key in STEPS) return clamp(active + STEPS[key], count);
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  if (line && (key === "ArrowDown" || key === "ArrowUp")) return line(active, key === "ArrowDown" ? 1 : -1);
  if (ranked && (key === "n" || key === "p")) {
    const order = ranked();
    const rank = order.indexOf(active);
    return order[(rank + (key === "n" ? 1 : -1) + order.length) % order.length] ?? null;
  }
  return null;
}

/** The nearest valid index. */
export const clamp = (index: number, count: number) => Math.max(0, Math.min(count - 1, index));
