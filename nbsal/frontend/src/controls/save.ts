// The menu that saves a view as a page, a picture or a table.

import type { Context, SavedFile } from "../page/context";
import { h } from "../page/dom";
import type { ViewTraits } from "../page/traits";
import { popover } from "./popover";

const FORMATS = [
  ["html", "Interactive page (.html)"],
  ["png", "Picture (.png)"],
  ["csv", "Table (.csv)"],
];

export function saveMenu({ ask, signal, live }: Context<ViewTraits>) {
  const save = async (kind: string) => {
    menu.close();
    const file = await ask("save", { kind });
    if (file) download(file);
  };
  const buttons = FORMATS.map(([kind, name]) =>
    h("button", { class: "nbsal-button nbsal-plain", signal, click: () => save(kind) }, name),
  );
  const menu = popover(signal, ["Save"], h("div", {}, ...buttons), "nbsal-plain", "nbsal-at-end", "nbsal-needs-python");
  menu.node.hidden = !live;
  return menu.node;
}

function download({ mime, name, content }: SavedFile) {
  const bytes = mime.startsWith("text/") ? content : Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
  const url = URL.createObjectURL(new Blob([bytes], { type: mime }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
