"""Compare: two explanations of one text on one scale, where they differ, and how far their rankings agree."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import traitlets

from nbsal.errors import InputError
from nbsal.evaluation._agreement import jaccard, kendall
from nbsal.explainer import Explainer
from nbsal.render import html, png
from nbsal.saliency import Floats, Saliency
from nbsal.widgets import jobs, wire
from nbsal.widgets.explainer_view import (
    NOTHING,
    TARGET,
    HighlightView,
    as_explainer,
    changed_settings,
    check_layer,
    check_method,
    method_settings,
    view_choices,
    with_settings,
)
from nbsal.widgets.export import asset

if TYPE_CHECKING:
    import pandas

FIRST = 5  # tokens whose overlap is counted
OTHER = ("method", "layer", "target", "tau")


@dataclass(frozen=True)
class ComparedPair:
    """Two explanations of the same tokens.

    >>> import nbsal
    >>> many = nbsal.compare(nbsal.load("demo/reviews"), ["gradcam", "simple"], "A joy.")
    >>> ComparedPair(many["gradcam"][0], many["simple"][0]).to_frame().columns.tolist()
    ['token', 'first', 'second', 'difference', 'first_rank', 'second_rank']
    """

    first: Saliency
    second: Saliency
    scale: str = "own"

    def __post_init__(self) -> None:
        if (self.first.row.parts, self.first.offsets) != (self.second.row.parts, self.second.offsets):
            raise InputError("Two explanations can be compared where they read the same text as the same tokens.")

    @property
    def shares(self) -> tuple[Floats, Floats]:
        """Both as shares of full colour: of each one's own largest score, or of the larger of both."""
        tops = [self.first.largest, self.second.largest]
        first, second = tops if self.scale == "own" else [max(tops)] * 2
        return self.first.scores / (first or 1.0), self.second.scores / (second or 1.0)

    @property
    def difference(self) -> Floats:
        """The first's share less the second's."""
        first, second = self.shares
        return first - second

    @cached_property
    def agreement(self) -> dict[str, float | None]:
        """Kendall's tau of both rankings, of all tokens, and the share of common ones among the five first of each."""
        first, second = self.first.order, self.second.order
        rank = kendall(first, second) if len(first) > 1 else None
        return {"rank": rank, "overlap": jaccard(first[:FIRST], second[:FIRST])}

    def caption(self) -> str:
        """Both decisions in a line."""
        return f"{self.first.caption()} beside {self.second.caption()}"

    def said(self) -> str:
        """The agreement in a line."""
        rank, (first, second) = self.agreement["rank"], (found.order[:FIRST] for found in (self.first, self.second))
        ranked = "one token has no ranking" if rank is None else f"Kendall's tau of the rankings {rank:+.2f}"
        return f"{ranked}; of the {len(first)} first tokens of each, {len({*first} & {*second})} are the same."

    def to_frame(self) -> "pandas.DataFrame":
        """One row a token."""
        frames = [self.first.to_frame(), self.second.to_frame()]
        first, second = self.shares
        shares = {"first": first, "second": second, "difference": first - second}
        ranks = {"first_rank": frames[0]["rank"], "second_rank": frames[1]["rank"]}
        return frames[0][["token"]].assign(**shares, **ranks)

    def texts(self) -> list[tuple[str, list[list[html.ScoredSpan]]]]:
        """The three shaded texts with their headings, all beside a full colour of 1."""
        shown = (self.first, self.shares[0]), (self.second, self.shares[1]), (self.first, self.difference)
        headings = self.first.caption(), self.second.caption(), "difference: first less second"
        return [
            (heading, replace(found, scores=shares).scored_spans())
            for heading, (found, shares) in zip(headings, shown, strict=True)
        ]

    def notes(self) -> list[str]:
        """What a reader must know to judge the picture."""
        largest = f"{self.first.largest:.3g} and {self.second.largest:.3g}"
        full = "each one's own" if self.scale == "own" else "the larger of both"
        scale = f"Largest scores: {largest}; shaded as shares of {full}."
        first, second = self.first.notes(), self.second.notes()
        shared = [note for note in first if note in second]
        own = [f"first: {note}" for note in first if note not in shared]
        return [self.said(), scale, *shared, *own, *(f"second: {note}" for note in second if note not in shared)]


class Compare(HighlightView):
    """Two methods, layers, targets or models on one text.

    `method`, `layer`, `target` and `tau` are the first's; `other_method` and so on the second's, which begins as the
    first where no `other` is given; one run of the model serves both where they explain one target of one subject.
    `scale` "own" shades each beside its own largest score, "shared" both beside the larger one. `agreement` is what
    Python reads back: Kendall's tau of the rankings of all tokens, and the common share of the five first.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> sorted(Compare(explain, text="A warm, funny film.", other_method="simple").wait().agreement)
    ['overlap', 'rank']
    """

    inputs = (*HighlightView.inputs, *(f"other_{name}" for name in OTHER))
    _esm = asset("compare.js")
    _css = asset("compare.css")

    other_method = traitlets.Unicode().tag(sync=True)
    other_layer = traitlets.Int(None, allow_none=True).tag(sync=True)
    other_target = traitlets.Any(None).tag(sync=True, **TARGET)
    other_tau = traitlets.Int(None, allow_none=True).tag(sync=True)
    scale = traitlets.Enum(("own", "shared"), "own").tag(sync=True)
    agreement = traitlets.Dict().tag(sync=True)
    _other_choices = traitlets.Dict(NOTHING).tag(sync=True)
    _other = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Any, other: Any = None, text: Any = None, **settings: Any) -> None:
        other = source if other is None else other
        if isinstance(source, Saliency) != isinstance(other, Saliency):
            raise InputError("Compare two explainers, or two results that are there already.")
        if isinstance(source, Saliency):
            self.other: Explainer | None = None
            self._given_other = other
            start = changed_settings(other)
            super().__init__(source, **{f"other_{name}": start[name] for name in ("method", "layer", "tau")} | settings)
            return
        self.other, self._given_other = as_explainer(other, self), None
        start = {f"other_{name}": value for name, value in method_settings(self.other.method).items()}
        super().__init__(source, text, **start | {"_other_choices": view_choices(self.other)} | settings)

    @traitlets.validate("other_method")
    def _valid_other_method(self, proposal: Any) -> Any:
        return check_method(proposal["value"], self._other_choices)

    @traitlets.validate("other_layer")
    def _valid_other_layer(self, proposal: Any) -> Any:
        return check_layer(proposal["value"], self._other_choices)

    @traitlets.observe("scale")
    def _rescale(self, change: Any) -> None:
        if self.result is not None:
            self.result = replace(self.result, scale=change["new"])

    def compute(self, wanted: dict[str, Any], job: jobs.Job) -> Any:
        if self.other is None:
            return ComparedPair(super().compute(wanted, job), self._given_other)
        own = {name: wanted[f"other_{name}"] for name in OTHER} | {"text": wanted["text"]}
        explainers = with_settings(self.explainer, wanted), with_settings(self.other, own)
        if self.other.subject is self.explainer.subject and own["target"] == wanted["target"]:
            first, second = self.explain_each(explainers, wanted, job)
        else:
            first, second = self.explain(explainers[0], wanted, job), self.explain(explainers[1], own, job)
        return ComparedPair(first, second)

    def publish(self, found: ComparedPair) -> None:
        self.result = found = replace(found, scale=self.scale)
        super().publish(found.first)
        self._scores, scales = wire.scores([found.first.scores, found.second.scores])
        self._result = self._result | {"scales": scales, "agreement": found.said(), "notes": found.notes()[2:]}
        self._other = wire.decision(found.second, self.other.subject if self.other is not None else None)
        self.agreement = found.agreement

    def html(self) -> str:
        texts = "".join(
            f"<div><b>{html.escape(heading)}</b></div>{html.text_html(parts, 1.0)}"
            for heading, parts in self.result.texts()
        )
        return html.block_html(self.result.caption(), texts, self.result.notes())

    def picture(self) -> bytes:
        sheet = png.Picture()
        for heading, parts in self.result.texts():
            sheet.shaded(heading, parts, 1.0)
        sheet.notes(self.result.notes())
        return sheet.png()
