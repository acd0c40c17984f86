"""What the Answers view computes beside scores: targets of their own, what is struck out, citations, and the curve."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nbsal.ablation.texts import REMOVE
from nbsal.explain.answer import Answer
from nbsal.support.errors import InputError, ModelError
from nbsal.widgets.cached_view import Panel, PanelCache, PanelJob
from nbsal.widgets.content import answer_parts as parts
from nbsal.widgets.content.answer_citations import offer_of
from nbsal.widgets.content.answer_curve import HidingCurve, hiding_curve
from nbsal.widgets.content.answer_parts import SpanScores, Strikes, Struck
from nbsal.widgets.content.answer_rivals import rival_scores
from nbsal.widgets.page.last_value import LastValue

ORDERS = 10  # random orders beside the hiding curve
SUBSETS = 8
STEPS = 1000  # resolution of its progress


class SpanPanel(Panel):
    """The scores of what is a target of its own: a token rather than its rival, or a span."""

    depends_on = ("rival", "at", "_span")
    with_scores = True

    def compute(self, explained: Answer, inputs: dict[str, Any], job: PanelJob) -> SpanScores | None:
        rival, at, tokens = inputs["rival"], inputs["at"], inputs["_span"]
        if rival is not None:
            if at is None:
                message = "rival needs the token that it rivals: set at to a token's number."
                raise InputError(message, argument="at", value=None)
            return rival_scores(explained, rival, at)
        if explained.linear or explained.hops != 0 or len(tokens) == 1:
            return None
        return parts.span_scores(explained, tokens or explained.reading.content)

    def publish(self, value: SpanScores | None) -> dict[str, Any]:
        return {"_own_scores": parts.span_trait(value)}


class StrikePanel(Panel):
    """What is left of the reply without what is struck out; the sentences of its words say so."""

    depends_on = ("struck",)
    with_scores = True

    def compute(self, explained: Answer, inputs: dict[str, Any], job: PanelJob) -> Strikes | None:
        assert explained.running is not None, "a loaded answer has no panels"
        experiment = explained.running.experiment.with_units(explained.reading.units("sentence"), REMOVE)
        return parts.without_struck(experiment, [Struck.parse(entry) for entry in inputs["struck"]])

    def publish(self, value: Strikes | None) -> dict[str, Any]:
        return {}


class CurvePanel(Panel):
    """The hiding curve, or why there is none."""

    depends_on = ()

    def compute(self, explained: Answer, inputs: dict[str, Any], job: PanelJob) -> HidingCurve:
        try:
            judged = explained.judge(random=ORDERS, subsets=SUBSETS, progress=_reporter(job))
            return hiding_curve(judged, explained)
        except (InputError, ModelError) as error:
            return HidingCurve(None, {"why": str(error)})

    def publish(self, value: HidingCurve | None) -> dict[str, Any]:
        return {"_curve": {} if value is None else value.trait}


class CitationsPanel(Panel):
    """Whether the reply uses what it cites; the subsets of documents of a reply that were run are not run again."""

    depends_on = ()

    def __init__(self) -> None:
        self._subsets = LastValue()

    def compute(self, explained: Answer, inputs: dict[str, Any], job: PanelJob) -> Answer | None:
        if not offer_of(explained):
            return explained if explained.sourced.finding else None
        running = explained.still_running()
        key = [explained.reading, running.explainer.subject.version]
        subsets = self._subsets.get(key, lambda: explained.check_citations(progress=_reporter(job)).subsets)
        return replace(explained, subsets=subsets)

    def publish(self, value: Answer | None) -> dict[str, Any]:
        return {}


def answer_panels() -> PanelCache:
    """The panels by name."""
    panels = PanelCache()
    panels |= {"span": SpanPanel(), "struck": StrikePanel(), "citations": CitationsPanel(), "curve": CurvePanel()}
    return panels


def _reporter(job: PanelJob) -> Callable[[int, int | None], None]:
    meter = job.meter(STEPS)
    return lambda done, total: meter.reach(STEPS * done // (total or done))
