"""Check that scores have the properties that a method promises (`PROPERTIES` in `nbsal.methods.base`)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nbsal.explain.explainer import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.methods.attention import deciding_positions
from nbsal.methods.base import LayerMethod
from nbsal.methods.decoding import Decoded
from nbsal.passes import trace
from nbsal.testing.scores import TEXTS, require, targets, tolerance

CLOSE = 1e-4  # for sums in single precision
COMPLETE = 0.2  # relative gap allowed: sums over steps along a path are discretised


def rounding(saliency: Saliency) -> float:
    """The error allowed in a sum of scores, relative to their size, in the precision that the method computed in."""
    return max(CLOSE, tolerance(getattr(torch, saliency.provenance["dtype"])))


def sum_is_1(saliency: Saliency) -> bool:
    """The scores sum to 1."""
    return bool(abs(saliency.scores.sum() - 1) < rounding(saliency))


def gap_is_reported(saliency: Saliency) -> bool:
    """The provenance holds a change and a gap that add up to the sum of the scores."""
    provenance = saliency.provenance
    if "change" not in provenance or "gap" not in provenance:
        return False
    change, size = provenance["change"], abs(saliency.scores).sum()
    error = abs(saliency.scores.sum() - change - provenance["gap"])
    return bool(error <= rounding(saliency) * max(size, abs(change)))


def same_for_each_occurrence(saliency: Saliency) -> bool:
    """Every occurrence of a token has the same score."""
    pairs = {*zip(saliency.row.ids, saliency.scores.tolist(), strict=True)}
    return len(pairs) == len(set(saliency.row.ids))


def special_is_zero(saliency: Saliency) -> bool:
    """Special tokens score 0."""
    return not saliency.scores[list(saliency.special)].any()


# What a property says of one explanation of a text with one deciding position, whose number is the second argument.
SINGLE: dict[str, Callable[[Saliency, int | None], bool]] = {
    "nonnegative": lambda s, at: bool(s.scores.min() >= 0),
    "at_most_1": lambda s, at: bool(s.scores.max() <= 1 + rounding(s)),
    "sums_to_1": lambda s, at: sum_is_1(s),
    "sums_to_1_per_decision": lambda s, at: sum_is_1(s),
    "reports_gap": lambda s, at: gap_is_reported(s),
    "sums_to_output_less_absorbed": lambda s, at: "absorbed" in s.provenance,
    "same_per_type": lambda s, at: same_for_each_occurrence(s),
    "zero_at_special": lambda s, at: special_is_zero(s),
    "zero_at_special_in_layer_0": lambda s, at: special_is_zero(s),
    "zero_at_first": lambda s, at: bool(s.scores[0] == 0),
    "zero_at_decision": lambda s, at: at is None or bool(s.scores[at] == 0),
}


def decision_position(explain: Explainer, text: str, target: Any) -> int | None:
    """The position that a target of a text is read from; None if there are several."""
    record = trace.record(explain.subject, explain.subject.encode(text), [target], needs=())
    (weights,) = deciding_positions(record)
    places = [int(place) for place in weights.sum(0).nonzero()]
    return places[0] if len(places) == 1 else None


def relative_gap(saliency: Saliency) -> float:
    """The gap between the sum of the scores and the change from the baseline, over the sum of absolute scores."""
    return float(abs(saliency.provenance["gap"]) / abs(saliency.scores).sum())


def at_layer_0(explain: Explainer) -> Explainer:
    """The same explainer of layer 0, for a property that holds there only."""
    method: Any = explain.method
    if isinstance(method, LayerMethod):
        return Explainer(explain.subject, replace(method, layer=0))
    if isinstance(method, Decoded):
        return Explainer(explain.subject, replace(method, method=replace(method.method, layer=0)))
    return explain


def promises_hold(explain: Explainer, texts: Sequence[str] = TEXTS) -> None:
    """The scores have every property that the method promises, as far as single explanations show it."""
    promise, name = explain.method.promise, explain.method.name
    explanations = {text: {target: explain(text, target) for target in targets(explain.subject)} for text in texts}
    for text, by_target in explanations.items():
        for promised in sorted(promise & set(SINGLE)):
            checked = {None: at_layer_0(explain)(text)} if promised.endswith("layer_0") else by_target
            for target, saliency in checked.items():
                place = decision_position(explain, text, target) if promised == "zero_at_decision" else None
                problem = f"{name} promises {promised!r}, but {text!r} has the scores {saliency.scores.round(4)}"
                require(SINGLE[promised](saliency, place), problem)
        if "sums_to_change" in promise and all("gap" in saliency.provenance for saliency in by_target.values()):
            gap = max(map(relative_gap, by_target.values()))
            problem = f"{name} promises 'sums_to_change', but misses it by {gap:.0%} of the scores of {text!r}"
            require(gap < COMPLETE, problem)
    signs_are_as_promised(explain, [saliency for by_target in explanations.values() for saliency in by_target.values()])
    targets_matter_as_promised(explain, list(explanations.values()))


def signs_are_as_promised(explain: Explainer, saliencies: Sequence[Saliency]) -> None:
    """Some score is negative if and only if the method promises signed scores."""
    lowest = min(float(saliency.scores.min()) for saliency in saliencies)
    problem = f"the lowest score is {lowest:.4g}: promise 'signed' or 'nonnegative'"
    promise = explain.method.promise
    require(("signed" in promise) is (lowest < 0) is not ("nonnegative" in promise), problem)


def targets_matter_as_promised(explain: Explainer, by_text: Sequence[dict[Any, Saliency]]) -> None:
    """Scores differ between targets if and only if the method promises that they are about the target."""
    rows = [[saliency.scores for saliency in by_target.values()] for by_target in by_text]
    if max(map(len, rows)) < 2:  # a regression or a similarity has one target, and nothing to compare it with
        return
    same = all(np.array_equal(scores, row[0]) for row in rows for scores in row)
    depend = "do not depend" if same else "depend"
    problem = f"scores {depend} on the target: promise 'about_target' or 'not_about_target'"
    promise = explain.method.promise
    require(("about_target" in promise) is not same is ("not_about_target" in promise), problem)
