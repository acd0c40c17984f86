// The clouds of all classes, the line that says what is known of a word, and how many words there are.

import { type CloudReadout, cloudOf } from "../charts/cloud";
import { segments } from "../controls/display";
import { stepper } from "../controls/stepper";
import { bind, type Context } from "../page/context";
import type { Cloud, CloudsTraits } from "../page/corpus-traits";
import { h, onAbort } from "../page/dom";

type CloudsContext = Context<CloudsTraits>;

const STEP = 5; // words
const MOST = 200;

export function cloudPanel(context: CloudsContext) {
  const { get, on, live } = context;
  const line = h("div", { class: "nbsal-readout nbsal-small nbsal-line", "aria-live": "polite" });
  let hint = "";
  const readout: CloudReadout = { say: (parts) => line.replaceChildren(...(parts ?? [hint])) };
  const overlap = h("span", { class: "nbsal-quiet" });
  const [clouds, tools] = [cloudRow(context, readout), toolRow(context)];
  let acted = true; // the reader has changed something since the clouds were drawn
  let size = 0; // texts
  const redraw = () => {
    clouds.redraw();
    tools.draw(clouds.homeless());
  };
  on(["k", "unit"], () => {
    acted = true;
  });
  on(["form"], redraw);
  on(["picked"], clouds.drawPicked);
  clouds.onResize(() => tools.draw(clouds.homeless()));
  const node = h("section", {}, clouds.node, h("div", { class: "nbsal-read nbsal-small" }, line, overlap), tools.node);
  if (!live) node.classList.add("nbsal-offline");
  return {
    node,
    draw() {
      const { overlap: finding = "", hint: next = "", explained = 0, total = 0 } = get("_summary");
      overlap.textContent = finding;
      hint = next;
      if (!line.querySelector("b")) readout.say(null);
      // While texts are explained, words that are being read stay; those of all texts follow.
      if (acted || explained === total || !size) clouds.draw(get("_clouds"));
      acted = false;
      size = explained;
      tools.draw(clouds.homeless());
    },
  };
}

/** The clouds of all classes, which are laid out again when their width or their font changes. */
function cloudRow(context: CloudsContext, readout: CloudReadout) {
  const { signal } = context;
  const node = h("div", { class: "nbsal-cloud-row" });
  let drawn: ReturnType<typeof cloudOf>[] = [];
  let drawnFrom: Cloud[] | null = null;
  let controller = new AbortController(); // of the clouds that are drawn
  let onResize = () => {};
  let homeless = 0;
  const redraw = () => {
    homeless = drawn.reduce((sum, cloud) => sum + cloud.draw(), 0);
  };
  onAbort(signal, () => controller.abort());
  const observer = new ResizeObserver(() => {
    redraw();
    onResize();
  });
  observer.observe(node);
  onAbort(signal, () => observer.disconnect());
  document.fonts?.ready.then(() => {
    if (signal.aborted) return;
    for (const cloud of drawn) cloud.forget();
    redraw();
  });
  return {
    node,
    redraw,
    drawn: () => drawnFrom !== null,
    homeless: () => homeless,
    onResize(call: () => void) {
      onResize = call;
    },
    drawPicked() {
      for (const cloud of drawn) cloud.drawPicked();
    },
    draw(clouds: Cloud[]) {
      if (JSON.stringify(clouds) === JSON.stringify(drawnFrom)) return;
      drawnFrom = clouds;
      controller.abort();
      controller = new AbortController();
      drawn = clouds.map((cloud) => cloudOf(context, cloud, readout, controller.signal));
      node.replaceChildren(...drawn.map((cloud) => cloud.node));
      readout.say(null); // the word that it described is gone
      node.classList.toggle("nbsal-single", drawn.length === 1);
      redraw();
    },
  };
}

function toolRow(context: CloudsContext) {
  const { get, live } = context;
  const form = segments(bind(context, "form"), "Form", [
    ["cloud", "Cloud"],
    ["list", "List"],
  ]);
  const number = h("b");
  const room = h("span", { class: "nbsal-quiet" }, "Only in the list", " ", number);
  const unit = segments(bind(context, "unit"), "Unit", [
    ["word", "Words"],
    ["token", "Tokens"],
  ]);
  unit.classList.add("nbsal-needs-python");
  for (const button of unit.querySelectorAll("button")) button.disabled = get("_plain");
  unit.hidden = !live; // other units are other words
  const range = { step: STEP, least: STEP, most: MOST };
  const count = stepper(bind(context, "k"), "Words per cloud", ["Fewer words", "More words"], range);
  return {
    node: h("div", { class: "nbsal-tools" }, count, form, unit, room),
    /** @param homeless the number of words that found no room */
    draw(homeless: number) {
      room.hidden = !homeless || get("form") !== "cloud";
      number.textContent = String(homeless);
    },
  };
}
