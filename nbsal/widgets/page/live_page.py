"""Live pages: views that are saved with a small copy of their model, which answers in the page without Python."""

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nbsal.explain.lazy import Explainer
from nbsal.explain.sentences.function_words import FUNCTION_WORDS
from nbsal.methods.facts import label_of
from nbsal.methods.lazy import Decoded, catalogue, default
from nbsal.support.errors import InputError, UnknownName
from nbsal.widgets.page.choices import method_choice, with_list

FOLDER = "nbsal-live"  # beside the page, for the files of its model
VIEWS = "Highlight, Layers and Compare"
STYLE = (  # Python saves; and the note above a view that cannot answer
    ".nbsal-at-end.nbsal-needs-python{display:none}"
    ".nbsal-live-note{font-family:sans-serif;border-left:4px solid;padding:.2em .8em;max-width:50em}"
)
NEEDS_WASM = (
    "The model of this page cannot run here: that needs Intl.Segmenter, and WebAssembly with SIMD, which the policy of "
    "the site must allow ('wasm-unsafe-eval'). "
)
NEEDS_SERVER = (
    "Opened from disk, this page cannot load its model. To type a text and have it answered, run "
    "\u201cpython -m http.server\u201d in the page's folder and open http://localhost:8000/{page}. "
)
UNCHECKED = (
    "This page came over plain http, where a browser cannot check the files of its model: nobody would notice a "
    "damaged or changed one. Open it over https."
)
INVITATION = "Edit the text: {name} answers, in this page"
SAVED = "What you see was saved from Python."


def runnable() -> list[str]:
    """The methods that a page can run, those to try first in front."""
    methods = [method for method in catalogue.every_method().values() if method.facts.live]
    return [method.name for method in sorted(methods, key=lambda method: method.facts.recommended or inf)]


def with_runnable_method(view: Any) -> Any:
    """The view, or a copy of it by the best method of those that a page can run, if it cannot run the view's own."""
    first, *others = _explainers(view)
    if others or first.method.name in runnable():
        return view
    explainer = Explainer(first.subject, default.default_method(first.subject, default.FOR_LIVE_PAGES), long=first.long)
    kept = {*view.trait_names(page=True)} - {"method", "layer", "tau", "selection"}
    copy = type(view)(explainer, **{name: getattr(view, name) for name in kept})
    copy.wait()
    return copy


def describe(view: Any, folder: Path, page: str, shown: Any = None) -> dict[str, Any]:
    """Write the model of a view below `folder`, and return what its page needs to answer.

    `shown` is the view that the page stands for, if its method is another one.
    """
    from nbsal.live.export import copy_name, export

    explainers = _explainers(view)
    subject = explainers[0].subject
    for explainer in explainers:
        _check(explainer)
    files = export(subject, folder / FOLDER)
    names = [name for name in runnable() if subject.decodes or not name.startswith("decoded")]
    methods = [method_choice(catalogue.create(name), subject) | {"group": "recommended"} for name in names]
    return {
        "view": view.live_name,
        "folder": f"{FOLDER}/{files.name}",
        "name": copy_name(subject),
        "labels": list(subject.labels),
        "layer": subject.default_layer,
        "methods": methods,
        "function_words": sorted(FUNCTION_WORDS),
        "inputs": list(view.inputs),
        "invitation": INVITATION.format(name=copy_name(subject)),
        "needs_server": NEEDS_SERVER.format(page=quote(page)) + SAVED,
        "needs_wasm": NEEDS_WASM + SAVED,
        "unchecked": UNCHECKED,
        "instead": "" if shown in (None, view) else _instead(shown.method, view.method),
    }


def live_state(state: dict[str, Any], page: dict[str, Any]) -> dict[str, Any]:
    """The traits of a view for a live page: the methods that it runs, and nothing that Python would open."""
    result = state["_result"] | {"notes": [*state["_result"]["notes"], *filter(None, [page["instead"]])]}
    chosen = {name: with_list(state[name], page["methods"]) for name in ("_choices", "_other_choices") if name in state}
    return state | chosen | {"_result": result, "_checking": {}, "_seconds": "", "_next": []}


def _instead(method: str, other: str) -> str:
    """The note about a method that a page cannot run, and the one in its place."""
    return f"{label_of(method)} needs Python: this page explains by {label_of(other)}"


def _explainers(view: Any) -> list[Explainer]:
    if not view.live_name:
        message = f"{type(view).__name__} cannot be a live page: {VIEWS} can. Pass interactive=True instead."
        raise InputError(message, argument="live", value=True)
    if view.explainer is None:
        message = "A finished result has no model that could answer in a page. Pass an explainer to the view."
        raise InputError(message, argument="live", value=True)
    inputs = {name: getattr(view, name) for name in view.inputs} | {"layer": view.layer}
    explainers: list[Explainer] = view.explainers_for(inputs)
    if len({id(explainer.subject) for explainer in explainers}) > 1:
        message = "A live page runs one model. Compare two methods, layers or targets of one subject."
        raise InputError(message, argument="other", value=explainers[1].subject)
    return explainers


def _check(explainer: Explainer) -> None:
    """Refuse settings that the page would not follow."""
    method: Any = explainer.method
    if method.name not in runnable():
        raise UnknownName("method", method.name, runnable(), f"A live page cannot run method={method.name!r}.")
    plain: Any = catalogue.create(method.name)
    if isinstance(method, Decoded):
        plain = replace(plain, tau=method.tau, method=replace(plain.method, layer=method.method.layer))
    else:
        plain = replace(plain, layer=method.layer)
    if method != plain:
        message = f"A live page runs {method.name} with its usual settings, a layer and tau, not {method!r:.200}."
        raise InputError(message, argument="method", value=method)
    if explainer.long != "truncate":
        message = f"A live page cuts long texts off. Pass long='truncate' to the explainer, not {explainer.long!r}."
        raise InputError(message, argument="long", value=explainer.long)
