// The clouds of all classes, the line that says what is known of a word, and how many words there are.

import { type CloudReadout, cloudOf } from "../charts/cloud";
import { segments, UNITS } from "../controls/display";
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
  on(["k", "unit"], () => {
    acted = true;
  });
  const node = h("section", {}, clouds.node, h("div", { class: "nbsal-read nbsal-small" }, line, overlap), tools);
  if (!live) node.classList.add("nbsal-offline");
  return {
    node,
    draw() {
      const { overlap: finding = "", hint: next = "", choose = "", explained = 0, total = 0 } = get("_summary");
      overlap.textContent = finding;
      hint = live ? next + choose : next;
      if (!line.querySelector("b")) readout.say(null);
      // While texts are explained, words that are being read stay; those of all texts follow.
      if (acted || explained === total || !size) clouds.draw(get("_clouds"));
      acted = false;
      size = explained;
    },
  };
}

/** The clouds of all classes. */
function cloudRow(context: CloudsContext, readout: CloudReadout) {
  const { on, signal } = context;
  const node = h("div", { class: "nbsal-cloud-row" });
  let drawn: ReturnType<typeof cloudOf>[] = [];
  let drawnFrom = "";
  let controller = new AbortController(); // of the clouds that are drawn
  onAbort(signal, () => controller.abort());
  const drawState = () => {
    for (const cloud of drawn) {
      cloud.drawPicked();
      cloud.drawForm();
    }
  };
  on(["picked", "form"], drawState);
  return {
    node,
    draw(clouds: Cloud[]) {
      const key = JSON.stringify(clouds);
      if (key === drawnFrom) return;
      drawnFrom = key;
      controller.abort();
      controller = new AbortController();
      drawn = clouds.map((cloud) => cloudOf(context, cloud, readout, controller.signal));
      node.replaceChildren(...drawn.map((cloud) => cloud.node));
      node.classList.toggle("nbsal-single", drawn.length === 1);
      readout.say(null); // the word that it described is gone
      drawState();
    },
  };
}

function toolRow(context: CloudsContext) {
  const { get, live } = context;
  const form = segments(bind(context, "form"), "Form", [
    ["cloud", "Cloud"],
    ["list", "List"],
  ]);
  const unit = segments(bind(context, "unit"), "Unit", UNITS);
  unit.classList.add("nbsal-needs-python");
  for (const button of unit.querySelectorAll("button")) button.disabled = get("_plain");
  unit.hidden = !live; // other units are other words
  const range = { step: STEP, least: STEP, most: MOST };
  const count = stepper(bind(context, "k"), "Words per cloud", ["Fewer words", "More words"], range);
  return h("div", { class: "nbsal-tools" }, count, form, unit);
}
