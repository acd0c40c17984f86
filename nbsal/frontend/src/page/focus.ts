// The focus stays in a view when the element that has it is drawn again, hidden or disabled.

import { onAbort } from "./dom";

const USABLE =
  ":is(button, input, select, textarea, [tabindex]):not(:disabled, [hidden], [hidden] *, [inert], [inert] *)";

export function keepFocus(root: HTMLElement, signal: AbortSignal) {
  let focused: HTMLElement | null = null;
  let place: HTMLElement | null = null; // what the focused element is in
  const active = () => (root.getRootNode() as Document | ShadowRoot).activeElement;
  const isUsable = (element: HTMLElement) => element.isConnected && element.matches(USABLE);
  const onFocus = ({ target }: FocusEvent) => {
    focused = target as HTMLElement;
    place = focused.parentElement;
  };
  /** Forget the element if it is the reader who left it. */
  const onBlur = () =>
    queueMicrotask(() => {
      if (focused && isUsable(focused) && focused !== active()) focused = null;
    });
  /** Focus what now stands for the lost element, else something beside it, else the view. */
  const restore = () => {
    if (!focused || isUsable(focused) || ![null, document.body, focused].includes(active() as HTMLElement)) return;
    const { outcome } = focused.dataset;
    const same = outcome && root.querySelector<HTMLElement>(`button[data-outcome="${CSS.escape(outcome)}"]`);
    const beside = place?.isConnected && place.querySelector<HTMLElement>(USABLE);
    const next = same || beside || root;
    if (next === root) root.tabIndex = -1; // not for ever: a press beside the controls leaves the keys to the notebook
    next.focus({ preventScroll: true });
  };
  root.addEventListener("focusin", onFocus, { signal });
  root.addEventListener("focusout", onBlur, { signal });
  root.addEventListener("blur", () => root.removeAttribute("tabindex"), { signal });
  const observer = new MutationObserver(restore);
  observer.observe(root, { childList: true, subtree: true, attributeFilter: ["disabled", "hidden", "inert"] });
  onAbort(signal, () => observer.disconnect());
}
