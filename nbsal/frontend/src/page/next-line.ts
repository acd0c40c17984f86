// The line "Next:": what to look at after a view. A press opens it below, where the host can show it.

import type { Context, Model } from "./context";
import { h, link, onAbort } from "./dom";
import type { ViewTraits } from "./traits";

const PREFIX = "IPY_MODEL_";

export function nextLine(context: Context<ViewTraits>, model: Model<ViewTraits>) {
  const { get, on, mirror, ask, fail, live, signal } = context;
  const buttons = h("span", { class: "nbsal-next-steps" });
  const note = h("span", { class: "nbsal-quiet" });
  const node = h("nav", { class: "nbsal-next", "aria-label": "Next" }, h("span", {}, "Next:"), buttons, note);
  const below = h("div", { class: "nbsal-below" });
  const manager = model.widget_manager;
  let shown: { el: HTMLElement; remove(): void } | null = null;

  const open = async (name: string, settings: object = {}) => {
    const inPython = await ask("next", { name, ...settings });
    if (inPython && !manager?.create_view) note.textContent = inPython;
  };
  const draw = () => {
    const steps = get("_next") ?? [];
    node.hidden = !live || !steps.length;
    buttons.replaceChildren(
      ...steps.map(([name, words, needsFile]) =>
        needsFile ? fileButton(words, signal, (file) => open(name, { file })) : link(signal, words, () => open(name)),
      ),
    );
  };
  const showBelow = async () => {
    const name = get("_below");
    if (!name || !manager?.get_model || !manager.create_view) return;
    const view = await manager.create_view(await manager.get_model(name.slice(PREFIX.length)));
    shown?.remove();
    shown = view;
    if (signal.aborted) return view.remove();
    below.replaceChildren(view.el);
    below.scrollIntoView({ block: "center" }); // it grows downwards once its result is there
    below.querySelector<HTMLElement>("[tabindex='0'], button")?.focus({ preventScroll: true });
  };
  mirror(["_next"], draw);
  on(["_below"], () => showBelow().catch(({ message }) => fail(message)));
  if (get("_below")) showBelow().catch(() => {}); // a view of an earlier session
  onAbort(signal, () => shown?.remove());
  return { node, below };
}

/** A button that asks for a file of texts first. */
function fileButton(words: string, signal: AbortSignal, open: (file: { name: string; content: string }) => void) {
  const change = async () => {
    const [file] = input.files ?? [];
    if (file) open({ name: file.name, content: await file.text() });
    input.value = "";
  };
  const input = h("input", { type: "file", accept: ".csv,.jsonl,.json,.txt", hidden: true, signal, change });
  const button = link(signal, `${words}\u2026`, () => input.click());
  return h("span", {}, button, input);
}
