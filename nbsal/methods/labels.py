"""How methods are named, described and drawn, by the facts that their classes state."""

import inspect
import re
from typing import TYPE_CHECKING

from nbsal.methods.cost import evaluate
from nbsal.methods.facts import Facts, stated, stated_promise
from nbsal.render.looks import RANDOM, Look, look_at

if TYPE_CHECKING:
    from nbsal.methods.base import Method

RANDOM_MASK = ("random mask", 6)  # a curve of figures that no method draws, and its place
ABOUT = frozenset({"nonnegative", "not_about_target"})  # what sentences and the legend need of a method's promise


def summary(method: "Method") -> str:
    """What a method shows, in a sentence."""
    first = (inspect.getdoc(type(method)) or "").split("\n\n")[0]
    return method.facts.sentence or first.replace("\n", " ")


def group(method: "Method") -> str:
    """Where a list has a method: recommended, more or published."""
    return "recommended" if method.facts.recommended else "published" if "@" in method.name else "more"


def cost_words(method: "Method") -> str:
    """The cost of a method in passes through the model, or "": a pass is a forward with its backward one."""
    if not hasattr(method, "cost"):  # a method that was not registered
        return ""
    sizes = {name: value for name, value in method.parameters().items() if isinstance(value, int)}
    words = {"tokens": 0, "content tokens": 0, "units": 0, "baselines": 1, "token baselines": 0}
    none, many = (
        evaluate(method.cost.forwards, words | sizes | {"tokens": n, "content tokens": n, "units": n}) for n in (1, 101)
    )
    per_word = round((many - none) / 100)
    if per_word:
        return f"{per_word} {'pass' if per_word == 1 else 'passes'} per word"
    passes = max(1, round(none) if method.cost.relevance == 0 else none + 3 * method.cost.relevance)
    return f"{passes} {'pass' if passes == 1 else 'passes'}"


def is_signed(method: "Method | None") -> bool:
    """Whether the scores of a method speak for and against the target."""
    return "nonnegative" not in getattr(method, "promise", ())


def own_promise(name: str) -> frozenset[str] | None:
    """Whether scores of nbsal's own method are 0 or more, and whether they depend on the target; None for others."""
    promise = stated_promise(name)
    return None if promise is None else promise & ABOUT


def look(name: str, number: int = 0) -> Look:
    """The look of an explainer by its name; one that is named after no method has that of its number in the figure.

    Variants and layers have the colour of their method; layers differ in dash and marker.

    >>> look("gradcam") == look("Grad-CAM"), look("gradcam").line == look("Grad-CAM l3").line
    (True, False)
    """
    method, layer = _parts(name)
    if method == "random":
        return Look(RANDOM, ":", "")
    place = dict([RANDOM_MASK]).get(method, stated().get(method, Facts()).look)
    return look_at(number if place is None else place, layer)


def layer_of(name: str) -> int | None:
    """The layer in an explainer's name.

    >>> layer_of("decoded Grad-CAM l5"), layer_of("lrp")
    (5, None)
    """
    return _parts(name)[1]


def _parts(name: str) -> tuple[str, int | None]:
    """The method of an explainer's name, and its layer if it is named."""
    base = name.lower().split("@")[0].strip()
    match = re.fullmatch(r"(.*?)[ -]l?(\d+)", base)
    method, layer = (match[1], int(match[2])) if match else (base, None)
    return re.sub("^decoded ", "decoded-", method).replace("grad-cam", "gradcam"), layer
