"""The Compare view: two explanations of one text on one scale, their difference, and how far their rankings agree."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import traitlets

from nbsal.errors import InputError
from nbsal.evaluation._agreement import jaccard, kendall
from nbsal.explainer import Explainer
from nbsal.render import html, text_lines
from nbsal.render.text_lines import ScoredText
from nbsal.saliency import Floats, Saliency
from nbsal.widgets import jobs, wire
from nbsal.widgets.explainer_view import (
    NO_CHOICES,
    TARGET_JSON,
    ShadedView,
    check_layer,
    check_method,
    method_traits,
    result_traits,
    view_choices,
    with_settings,
)
from nbsal.widgets.export import asset

if TYPE_CHECKING:
    import pandas

TOP = 5  # tokens of each explanation whose overlap is counted
SECOND_SETTINGS = ("method", "layer", "target", "tau")


@dataclass(frozen=True)
class ComparedPair:
    """Two explanations of the same tokens.

    >>> import nbsal
    >>> by_method = nbsal.compare(nbsal.load("demo/reviews"), ["gradcam", "simple"], "A joy.")
    >>> ComparedPair(by_method["gradcam"][0], by_method["simple"][0]).to_frame().columns.tolist()
    ['token', 'first', 'second', 'difference', 'first_rank', 'second_rank']
    """

    first: Saliency
    second: Saliency
    scale: str = "own"

    def __post_init__(self) -> None:
        if (self.first.row.parts, self.first.offsets) != (self.second.row.parts, self.second.offsets):
            message = "Compare needs two explanations of the same text with the same tokens."
            raise InputError(message, argument="other", value=self.second)

    @property
    def shares(self) -> tuple[Floats, Floats]:
        """Both scores as shares of full colour: of each one's own largest score, or of the larger of the two."""
        largest = [self.first.largest, self.second.largest]
        first, second = largest if self.scale == "own" else [max(largest)] * 2
        return self.first.scores / (first or 1.0), self.second.scores / (second or 1.0)

    @property
    def difference(self) -> Floats:
        """The first shares minus the second."""
        first, second = self.shares
        return first - second

    @cached_property
    def agreement(self) -> dict[str, float | None]:
        """Kendall's tau of the rankings of all tokens, and the Jaccard overlap of the top five."""
        first, second = self.first.order, self.second.order
        rank = kendall(first, second) if len(first) > 1 else None
        return {"rank": rank, "overlap": jaccard(first[:TOP], second[:TOP])}

    def caption(self) -> str:
        """Both decisions in one line."""
        return f"{self.first.caption()} and {self.second.caption()}"

    def agreement_text(self) -> str:
        """The agreement in one sentence."""
        rank, first, second = self.agreement["rank"], self.first.order[:TOP], self.second.order[:TOP]
        tau = "A single token has no ranking" if rank is None else f"Kendall's tau of the rankings {rank:+.2f}"
        return f"{tau}; {len({*first} & {*second})} of the top {len(first)} tokens are the same."

    def to_frame(self) -> "pandas.DataFrame":
        """One row per token."""
        first, second = self.first.to_frame(), self.second.to_frame()
        first_share, second_share = self.shares
        shares = {"first": first_share, "second": second_share, "difference": first_share - second_share}
        return first[["token"]].assign(**shares, first_rank=first["rank"], second_rank=second["rank"])

    def texts(self) -> list[ScoredText]:
        """The text three times: coloured by the first, by the second, and by their difference."""
        first, second = self.shares
        versions = [
            (self.first.caption(), replace(self.first, scores=first)),
            (self.second.caption(), replace(self.second, scores=second)),
            ("Difference: first minus second", replace(self.first, scores=first - second)),
        ]
        return [ScoredText(title, saliency.scored_spans(), 1.0) for title, saliency in versions]

    def notes(self) -> list[str]:
        """The agreement, the scale, and how each explanation was computed."""
        largest = f"{self.first.largest:.3g} and {self.second.largest:.3g}"
        own_scale = "each explanation is scaled to its own largest score"
        scale = own_scale if self.scale == "own" else "both are scaled to the larger one"
        return [self.agreement_text(), f"Largest scores: {largest}; {scale}.", *self.provenance_notes()]

    def provenance_notes(self) -> list[str]:
        """How each explanation was computed; what holds for both is stated once."""
        first, second = self.first.notes(), self.second.notes()
        shared = [note for note in first if note in second]
        only_first = [f"first: {note}" for note in first if note not in shared]
        return [*shared, *only_first, *(f"second: {note}" for note in second if note not in shared)]


class Compare(ShadedView):
    """Two methods, layers, targets or models on one text; or two finished Saliency results.

    `method`, `layer`, `target` and `tau` belong to the first explainer, `other_method` and so on to the second, which
    equals the first if no `other` is passed. Both share one trace if they explain one target of one subject. `scale`
    "own" colours each up to its own largest score, "shared" both up to the larger one. `agreement` holds Kendall's tau
    of the rankings of all tokens and the overlap of the top five.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> sorted(Compare(explain, text="A warm, funny film.", other_method="simple").wait().agreement)
    ['overlap', 'rank']
    """

    inputs = (*ShadedView.inputs, *(f"other_{name}" for name in SECOND_SETTINGS))
    _esm = asset("compare.js")
    _css = asset("compare.css")

    other_method = traitlets.Unicode().tag(sync=True, page=True)
    other_layer = traitlets.Int(None, allow_none=True).tag(sync=True, page=True)
    other_target = traitlets.Any(None).tag(sync=True, page=True, **TARGET_JSON)
    other_tau = traitlets.Int(None, allow_none=True).tag(sync=True, page=True)
    scale = traitlets.Enum(("own", "shared"), "own").tag(sync=True, page=True)
    agreement = traitlets.Dict().tag(sync=True)
    _other_choices = traitlets.Dict(NO_CHOICES).tag(sync=True)
    _other = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Any, other: Any = None, text: Any = None, **settings: Any) -> None:
        self.other: Any = source if other is None else other
        if isinstance(source, Saliency) != isinstance(self.other, Saliency):
            message = "Compare shows two explainers or two Saliency results, not one of each."
            raise InputError(message, argument="other", value=other)
        super().__init__(source, text, **settings)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        self.other = self.as_explainer(self.other)
        settings = {f"other_{name}": value for name, value in method_traits(self.other.method).items()}
        return super().from_explainer(explainer) | settings | {"_other_choices": view_choices(self.other)}

    def from_result(self, result: Any) -> dict[str, Any]:
        settings = result_traits(self.other)
        return super().from_result(result) | {f"other_{name}": settings[name] for name in ("method", "layer", "tau")}

    @property
    def result(self) -> Any:
        """The ComparedPair on display."""
        return None if self._computed is None else replace(self._computed, scale=self.scale)

    @traitlets.validate("other_method")
    def _valid_other_method(self, proposal: Any) -> Any:
        return check_method(proposal["value"], self._other_choices, "other_method")

    @traitlets.validate("other_layer")
    def _valid_other_layer(self, proposal: Any) -> Any:
        return check_layer(proposal["value"], self._other_choices, "other_layer")

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        if self.plain_result is not None:
            return ComparedPair(self.plain_result, self.other)
        other_inputs = {name: inputs[f"other_{name}"] for name in SECOND_SETTINGS} | {"text": inputs["text"]}
        explainers = with_settings(self.explainer, inputs), with_settings(self.other, other_inputs)
        if self.other.subject is self.explainer.subject and other_inputs["target"] == inputs["target"]:
            first, second = self.explain_each(explainers, inputs, job)
        else:
            first = self.explain(explainers[0], inputs, job)
            second = self.explain(explainers[1], other_inputs, job)
        return ComparedPair(first, second)

    def publish(self, result: ComparedPair) -> dict[str, Any]:
        first, second = result.first, result.second
        scores, scales = wire.scores([first.scores, second.scores])
        traits = super().publish(first)
        notes = {"agreement": result.agreement_text(), "notes": result.provenance_notes()}
        return traits | {
            "_scores": scores,
            "_result": traits["_result"] | {"scales": scales} | notes,
            "_other": wire.decision(second, None if self.subject is None else self.other.subject),
            "agreement": result.agreement,
        }

    def render_html(self) -> str:
        texts = "".join(
            f"<div><b>{html.escape(text.title)}</b></div>{html.text_html(text.parts, text.largest)}"
            for text in self.result.texts()
        )
        return html.block_html(self.result.caption(), texts, self.result.notes())

    def render_png(self) -> bytes:
        return text_lines.png(text_lines.draw(self.result.texts(), notes=self.result.notes()))
