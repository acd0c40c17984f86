// The connection to Python: how changes are sent, and what becomes of the controls once Python has stopped.

import type { Model } from "./context";
import { onAbort, throttle } from "./dom";

const CHECK_INTERVAL = 300; // ms between two checks whether Python is connected
const CONNECTION = "comm_live_update"; // the event of ipywidgets when a kernel has restarted

interface Watch {
  /** Whether an answer of Python is expected. */
  isWaiting(): boolean;
  onStopped(): void;
}

/** A function that sends traits to Python; it notices when nobody receives them. */
export function sender<Traits>(model: Model<Traits>, live: boolean, signal: AbortSignal, watch: Watch) {
  const check = () => {
    try {
      model.send({}); // unlike a message, a trait that reaches nobody raises no error
    } catch {
      watch.onStopped();
    }
  };
  const checkSometimes = throttle(check, CHECK_INTERVAL, signal);
  const kernel = model.widget_manager?.kernel;
  const watchIdle = () => (kernel?.isDisposed ? watch.onStopped() : watch.isWaiting() && checkSometimes());
  const onConnection = () => setTimeout(check); // Jupyter closes the connection right after it says so
  if (live) {
    const timer = setInterval(watchIdle, CHECK_INTERVAL);
    model.on(CONNECTION, onConnection);
    onAbort(signal, () => {
      clearInterval(timer);
      model.off(CONNECTION, onConnection);
    });
  }
  return (traits: Partial<Traits>) => {
    for (const name of Object.keys(traits) as (keyof Traits)[]) model.set(name, traits[name] as Traits[keyof Traits]);
    model.save_changes();
    if (live) checkSometimes();
  };
}

/** Disable the controls that need Python, whenever they are drawn. */
export function disableControls(root: HTMLElement, signal: AbortSignal) {
  const disable = () => {
    for (const control of root.querySelectorAll<HTMLElement>(".nbsal-needs-python")) {
      control.inert = true;
      if ("disabled" in control) control.disabled = true;
      if ("open" in control) control.open = false;
      control.querySelector<HTMLElement>(":popover-open")?.hidePopover();
    }
  };
  const observer = new MutationObserver(disable);
  observer.observe(root, { childList: true, subtree: true });
  onAbort(signal, () => observer.disconnect());
  disable();
}
