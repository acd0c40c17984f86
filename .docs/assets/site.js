// What the pages of the site do by script: views fit into their frames, and controls have names and can be reached.

// Views lie in frames: fit every frame to its content, and give it the colour scheme of the page.
function fitFrames() {
  const frames = [...document.querySelectorAll("iframe.view")];
  const sendScheme = (frame) => {
    const dark = document.body.dataset.mdColorScheme === "slate";
    frame.contentWindow?.postMessage({ nbsalScheme: dark ? "dark" : "light" }, "*");
  };
  addEventListener("message", ({ data, source }) => {
    const frame = frames.find(({ contentWindow }) => contentWindow === source);
    if (!frame || !data?.nbsalHeight) return;
    frame.style.height = `${data.nbsalHeight}px`;
    sendScheme(frame);
  });
  for (const frame of frames) frame.addEventListener("load", () => sendScheme(frame));
  const attributeFilter = ["data-md-color-scheme"];
  new MutationObserver(() => frames.forEach(sendScheme)).observe(document.body, { attributeFilter });
}

// What scrolls sideways can be reached by keys, and the frame of a "copy" button is no landmark.
function reachContent() {
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  const reach = () => {
    for (const node of document.querySelectorAll(".formula, div.output, .md-typeset__scrollwrap")) sizes.observe(node);
    for (const node of document.querySelectorAll(".md-code__nav:not([role])")) node.role = "none";
  };
  reach();
  new MutationObserver(reach).observe(document.querySelector(".md-content"), { childList: true, subtree: true });
}

// A section whose name is a link labels its list with a node that has no text; the search has no name at all.
function nameControls() {
  for (const list of document.querySelectorAll("nav[aria-labelledby]")) {
    if (document.getElementById(list.getAttribute("aria-labelledby"))?.textContent.trim()) continue;
    list.removeAttribute("aria-labelledby");
    list.setAttribute("aria-label", list.querySelector(".md-nav__title")?.textContent.trim());
  }
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
}

fitFrames();
reachContent();
nameControls();
