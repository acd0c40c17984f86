// A panel that folds under its heading; what is folded or out of sight is not computed.

import type { Context } from "../page/context";
import { debounce, h, onAbort } from "../page/dom";
import type { PanelName, ViewTraits, WorkbenchTraits } from "../page/traits";
import type { Explanation } from "../text/explanation";

const NOT_SAVED = "Not computed before this page was saved.";

const SIGHT_MARGIN = "200px"; // around the window: what is nearly in sight is computed
const SIGHT_DELAY = 150; // ms between scrolling and the message to Python

export interface Panel<Shown = Explanation> {
  node: HTMLElement;
  draw(shown: Shown | null): void;
}

interface Folded<Shown> {
  name: PanelName;
  /** The heading while there is no finding. */
  title: string;
  panel: Panel<Shown>;
  /** Whether the panel's data is there, and of the explained text. */
  computed(): boolean;
  /** Why there will be none, or nothing; with a way out. */
  reason(): (Node | string)[];
}

export function fold<Shown = Explanation>(
  context: Context<ViewTraits & Pick<WorkbenchTraits, "panels">>,
  { name, title, panel, computed, reason }: Folded<Shown>,
) {
  const { get, set, mirror, live, signal } = context;
  const header = panel.node.querySelector("header") ?? h("header");
  const plain = h("header", { class: "nbsal-small" }, h("h3", {}, title));
  for (const element of [header, plain]) element.setAttribute("role", "presentation"); // no banner of the page
  const hint = h("p", { class: "nbsal-hint" });
  const onToggle = () => {
    const others = get("panels").filter((other) => other !== name);
    if (get("panels").includes(name) !== node.open) set({ panels: node.open ? [...others, name] : others });
  };
  const node = h(
    "details",
    { class: "nbsal-fold", "data-panel": name, signal, toggle: onToggle },
    h("summary", { tabindex: 0 }, plain, header),
    hint,
    panel.node,
  );
  let drawn = false; // whether the panel has ever been drawn
  let text = "";
  const drawState = () => {
    const [there, why] = [computed(), reason()];
    const waiting = !there && !why.length && live && node.open;
    const previous = drawn && waiting; // the former drawing stays, dim, until the next one
    header.hidden = !there && !previous;
    plain.hidden = !header.hidden;
    panel.node.hidden = !there && !previous;
    node.classList.toggle("nbsal-waiting", waiting && !previous);
    const words = there || previous ? [] : why.length ? why : [live ? "" : NOT_SAVED];
    hint.replaceChildren(...words);
    hint.hidden = !words.length;
    text = hint.textContent ?? "";
  };
  mirror(["panels"], () => {
    node.open = get("panels").includes(name);
    drawState();
  });
  return {
    name,
    node,
    /** Say that what is drawn holds for what the controls say now, or that it does not any more. */
    setCurrent(current: boolean) {
      node.classList.toggle("nbsal-current", current && (computed() || text !== ""));
    },
    draw(shown: Shown | null) {
      if (shown && computed()) {
        panel.draw(shown);
        drawn = true;
      }
      drawState();
    },
  };
}

/** Tell Python which panels are out of sight. */
export function watchSight(
  { set, get, live, signal }: Context<WorkbenchTraits>,
  folds: { name: PanelName; node: HTMLElement }[],
) {
  if (!live) return;
  const hidden = new Set<PanelName>();
  const send = debounce(
    () => {
      const unseen = folds.map(({ name }) => name).filter((name) => hidden.has(name));
      if (String(unseen) !== String(get("_unseen"))) set({ _unseen: unseen });
    },
    SIGHT_DELAY,
    signal,
  );
  const onSight = (entries: IntersectionObserverEntry[]) => {
    for (const { target, isIntersecting } of entries) {
      const name = folds.find(({ node }) => node === target)?.name;
      if (name && isIntersecting) hidden.delete(name);
      else if (name) hidden.add(name);
    }
    send();
  };
  const observer = new IntersectionObserver(onSight, { rootMargin: SIGHT_MARGIN });
  for (const { node } of folds) observer.observe(node);
  onAbort(signal, () => observer.disconnect());
}
