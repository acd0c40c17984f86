"""Show views in a bare page with a replacement for Python; and hostile texts for all tests."""

import json
import shutil
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbsal.explain.saliency import LayerSaliency, Saliency
from nbsal.model.text.tokens import Row
from nbsal.widgets.page import html_export as pages

REAL = "A warm and unbelievably funny film, though its ending drags on and on. I would not call it bad."
MANY = [REAL, "A dull, endless bore.", "Warm, warm, warm: a joy.", "Nothing warm here, only a dull mess of a film."]
SIGNED = "gradxact"
NOTES = {"Office": "Mara works in the attic. Please pass it on.", "Trains": "The train to Oslo leaves at nine."}
NOTES |= {"Address": "Reminder: Mara lives in Oslo now.", "Old list": "Boris lives in Rouen. Boris likes tea."}
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "In which city does Mara live?"}]
NAMES = ["highlight", "layers", "compare"]  # that show a finished result of one text
LISTS = {
    "clouds": "Words of",
    "answers": "The reply",
}  # the name of a view's list; elsewhere "The text"
every_view = pytest.mark.parametrize(
    "name", [*NAMES, "heads", "games", "clouds", "browse", "workbench", "answers", "audit"]
)

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage"]
SHOW = """async ([script, style, state]) => {
  const sheet = document.createElement('style');
  sheet.textContent = style;
  const el = document.createElement('div');
  document.body.replaceChildren(sheet, el);
  window.view = await nbsal.show(script, state, el);
}"""
# Gives the page lists of methods, as if a view had requested them.
SHARE = "(lists) => { globalThis[Symbol.for('nbsal.method-lists')] = new Map(Object.entries(lists)); }"
BLANK = (
    '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    "<title>bench</title><body style='background:Canvas'>"
)
# Sets traits as the worker does: all of them, then the counter.
CHANGE = """(state) => {
  for (const [name, value] of Object.entries(nbsal.restoreBytes(state))) window.view.model.set(name, value);
  window.view.model.set('_rev', window.view.model.get('_rev') + 1);
}"""
KINDS = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror=window.pwned=1>",
    '"><svg onload=window.pwned=1>',
    "</style><b>bold</b>",
    "</script><script>window.pwned=1</script>",
    "<!--",
    "&lt;&amp;&#60;",
    "$\\frac{$",
    "cost $5 or $6",
    "a_b^c\\n",
    "javascript:window.pwned=1",
    "'\"`${window.pwned=1}`",
    "{{constructor}}",
    "\u202eevil\u202c",
    "\u2066\u2069",
    "zero\u200bwidth\u200d\u2060",
    "e\u0301\u0302\u0303",
    "\U0001f469\u200d\U0001f467\U0001f3fd",
    "\x1b[31m",
    "\x00\x07",
    "\u2028\u2029",
    "مرحبا",
    "日本語",
    "%s %(x)s",
    "x" * 10_000,
]
HOSTILE = [*KINDS, *(f"{kind[:100]}{i}" for i, kind in enumerate(KINDS * 3))]


def executable() -> str | None:
    """The path of a Chromium, if one is installed."""
    return next((path for name in CHROMIUM if (path := shutil.which(name))), None)


def row_of(tokens: list[str]) -> Row:
    """A text of tokens joined by spaces, between two special tokens."""
    size, ends = len(tokens) + 2, np.cumsum([len(token) + 1 for token in tokens]).tolist()
    spans = [(0, 0), *((end - 1 - len(token), end - 1) for token, end in zip(tokens, ends, strict=True)), (0, 0)]
    special = (True, *[False] * len(tokens), True)
    plain = (0,) * size
    names = ("[CLS]", *tokens, "[SEP]")
    return Row(" ".join(tokens), tuple(range(size)), names, tuple(spans), plain, special, plain, (1,) * size)


def saliency_of(tokens: list[str], layers: int = 0) -> Any:
    """A result with alternating scores, at one layer or at several."""
    row = row_of(tokens)
    scores = np.cos(np.arange(max(layers, 1) * len(row))).reshape(-1, len(row)).astype("float32")
    kind, values = (LayerSaliency, scores) if layers else (Saliency, scores[0])
    provenance = {"model": tokens[0], "parameters": {"layer": 3}, "dtype": "float32"}
    return kind(row, tokens[0], tokens[0], np.array([0.9, 0.1], "float32"), "gradcam", provenance, values, values)


def show(page, view, live: bool = False) -> None:
    """Show a view in a bare page, with or without Python; `window.view` holds its model and a function to close it."""
    if page.url == "about:blank" and not page.evaluate("() => 'nbsal' in window"):
        page.set_content(BLANK)
        page.add_script_tag(content=pages.asset("offline.js"))
    page.evaluate(SHARE, method_lists(view) if live else {})
    page.evaluate(SHOW, show_arguments(view, live))


def show_arguments(view, live: bool = False) -> list[Any]:
    """The arguments of SHOW: the script, style and state of a view."""
    return [str(view._esm), str(view._css), plain(pages.state(view) | {"_live": live})]


def method_lists(view) -> dict[str, Any]:
    """The lists of methods that the page of a view may request, by name."""
    choices = [getattr(view, name) for name in ("_choices", "_other_choices") if view.has_trait(name)]
    return {each["methods"]: view.handle_methods(each["methods"]) for each in choices}


def change(page, /, **state: Any) -> None:
    """Set traits as Python does."""
    page.evaluate(CHANGE, plain(state))


def answer(page, view) -> None:
    """Send a page what Python has computed, as the worker does."""
    sent = {name for name in pages.state(view) if name.startswith("_")} - {"_live", "_saved", "_rev"}
    change(page, **{name: value for name, value in pages.state(view).items() if name in sent})
    page.evaluate("() => window.view.model.set('status', 'ready')")


def is_dim(page) -> bool | None:
    """Whether the answer line, the evidence and the shades are dim; None where they disagree."""
    selectors = [".nbsal-headline", ".nbsal-evidence"]
    opacities = page.evaluate(
        "(selectors) => selectors.map(s => Number(getComputedStyle(document.querySelector(s)).opacity))", selectors
    )
    shades = page.evaluate("() => getComputedStyle(document.querySelector('.nbsal-text')).getPropertyValue('--dim')")
    dim = {*(opacity < 1 for opacity in opacities), shades not in ("", "1")}
    return dim.pop() if len(dim) == 1 else None


def expect_dim(page, dim: bool = True) -> None:
    """Wait until the answer line, the evidence and the shades are dim, or are not."""
    wait_for(page, lambda: is_dim(page), dim)


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """A state as plain JSON values."""
    return json.loads(pages.literal(state))


def tokens(root, label: str = "The text, word by word"):
    """The tokens of a text in a view."""
    return root.get_by_role("listbox", name=label, exact=True).get_by_role("option")


def choose(root, setting: str, value: str) -> None:
    """Choose a value of a display setting."""
    root.get_by_text("Display", exact=True).click()
    root.get_by_role("group", name=setting, exact=True).get_by_role("button", name=value, exact=True).click()
    root.get_by_text("Display", exact=True).press("Escape")


def trait(page, name: str):
    """The value of a trait of the view in a bare page."""
    return page.evaluate("(name) => window.view.model.get(name)", name)


def wait_for(page, read: Callable[[], Any], expected: Any) -> None:
    """Wait until something that is read from a page is as expected: a press may change it a moment later."""
    deadline = time.monotonic() + 60
    while (current := read()) != expected and time.monotonic() < deadline:
        page.wait_for_timeout(20)
    assert current == expected


def expect_traits(page, /, **values: Any) -> None:
    """Wait until traits of the view in a bare page have these values."""
    wait_for(page, lambda: {name: trait(page, name) for name in values}, values)
