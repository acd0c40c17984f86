"""The Compare view: two explanations of one text beside each other, and how far their rankings agree."""

from dataclasses import replace
from typing import Any

import numpy as np
import traitlets

from nbsal.explain.lazy import Explainer, HiddenWords, checking
from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.statement import Statement
from nbsal.explain.text_sheet import class_line
from nbsal.render.headline import phrases
from nbsal.render.sheet import (
    Bar,
    Beside,
    Block,
    CellTable,
    Heading,
    Legend,
    Line,
    Note,
    Sentence,
    Sheet,
)
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter
from nbsal.widgets.content.compared_pair import ComparedPair
from nbsal.widgets.content.compared_verdict import BADGES
from nbsal.widgets.explainer_view import (
    TARGET_JSON,
    ExplainerView,
    method_traits,
    result_traits,
    with_settings,
)
from nbsal.widgets.page import jobs, wire
from nbsal.widgets.page.choices import (
    NO_CHOICES,
    check_layer,
    check_method,
    offered_methods,
    view_choices,
    with_method,
)
from nbsal.widgets.page.html_export import asset

LEVELS = ("word", "token")
SCALES = {"own": "each one’s strongest word", "shared": "the strongest word of both"}  # what 100 % is
KEY = "\N{WHITE CIRCLE} A · \N{BLACK CIRCLE} B · ranked by size, for or against"
SETTINGS = ("method", "layer", "target", "tau")


@traitlets.signature_has_traits
class Compare(ExplainerView):
    """Two methods, layers, targets or models on one text; or two finished Saliency results.

    `method`, `layer`, `target` and `tau` belong to the first explainer, A, `other_method` and so on to the second, B,
    which equals the first if no `other` is passed; `swap()` exchanges them. Both share one trace if they explain one
    target of one subject. `scale` "own" colours each up to its own largest score, "shared" both up to the larger one.
    `agreement` holds Kendall's rank correlation of both rankings and the overlap of their top five: of the words, or
    with `level` "token" of the tokens, ranked by the size of their scores, for or against. `difference` also shows the
    text coloured by the difference.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> sorted(Compare(explain, text="A warm, funny film.", other_method="simple").wait().agreement)
    ['overlap', 'rank']
    """

    inputs = (*ExplainerView.inputs, *(f"other_{name}" for name in SETTINGS))
    live_name = "compare"
    rows_checked = 2
    omitted_steps = ("class", "method")
    _esm = asset("compare.js")
    _css = asset("compare.css")

    other_method = traitlets.Unicode().tag(sync=True, page=True)
    other_layer = traitlets.Int(None, allow_none=True).tag(sync=True, page=True)
    other_target = traitlets.Any(None).tag(sync=True, page=True, **TARGET_JSON)
    other_tau = traitlets.Int(None, allow_none=True).tag(sync=True, page=True)
    scale = traitlets.Enum(tuple(SCALES), "own").tag(sync=True, page=True)
    difference = traitlets.Bool(False).tag(sync=True, page=True)
    agreement = traitlets.Dict().tag(sync=True)
    _findings = traitlets.Dict().tag(sync=True)
    _other_choices = traitlets.Dict(NO_CHOICES).tag(sync=True)
    _other = traitlets.Dict().tag(sync=True)
    _key = traitlets.Unicode(KEY).tag(sync=True)

    def __init__(self, source: Any, other: Any = None, text: Any = None, **settings: Any) -> None:
        self.other: Any = source if other is None else other
        if isinstance(source, Saliency) != isinstance(self.other, Saliency):
            message = "Compare shows two explainers or two Saliency results, not one of each."
            raise InputError(message, argument="other", value=other)
        super().__init__(source, text, **settings)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        self.other = self.as_explainer(self.other)
        settings = {f"other_{name}": value for name, value in method_traits(self.other.method).items()}
        choices = view_choices(self.other, offered_methods(self.other))
        return super().from_explainer(explainer) | settings | {"_other_choices": choices}

    def from_result(self, result: Any) -> dict[str, Any]:
        settings = result_traits(self.other)
        return super().from_result(result) | {f"other_{name}": settings[name] for name in ("method", "layer", "tau")}

    @property
    def result(self) -> Any:
        """The ComparedPair on display."""
        return None if self._computed is None else replace(self._computed, scale=self.scale, level=self.level)

    def selected(self) -> "pandas.DataFrame":
        return self._selected_rows(replace(self.result, level="token").to_frame())

    def swap(self) -> None:
        """Exchange A and B."""
        with self._lock, self.hold_sync():
            if self.plain_result is None:
                self.explainer, self.other = self.other, self.explainer
                self.subject = self.explainer.subject
            else:
                self.plain_result, self.other = self.other, self.plain_result
            self._choices, self._other_choices = self._other_choices, self._choices
            for name in SETTINGS:
                first, second = getattr(self, name), getattr(self, f"other_{name}")
                setattr(self, name, second)
                setattr(self, f"other_{name}", first)
            self.request()

    def handle_swap(self) -> str:
        """Answer a page that wants to exchange A and B."""
        self.swap()
        return "swapped"

    @traitlets.validate("other_method")
    def _valid_other_method(self, proposal: Any) -> Any:
        return check_method(proposal["value"], self._other_choices, "other_method")

    @traitlets.validate("other_layer")
    def _valid_other_layer(self, proposal: Any) -> Any:
        return check_layer(proposal["value"], self._other_choices, "other_layer")

    @traitlets.observe("other_method")
    def _describe_other_method(self, change: Any) -> None:
        self._other_choices = with_method(self._other_choices, change["new"])

    @traitlets.observe("level")
    def _follow_level(self, change: Any) -> None:
        if self._findings:
            self.agreement = self._findings[self.level]["agreement"]

    def explainers_for(self, inputs: dict[str, Any]) -> list[Explainer]:
        return [with_settings(self.explainer, inputs), with_settings(self.other, _other_inputs(inputs))]

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        if self.plain_result is not None:
            return ComparedPair(self.plain_result, self.other)
        explainers, other_inputs = self.explainers_for(inputs), _other_inputs(inputs)
        names = tuple(explainer.method.name for explainer in explainers)
        if self._is_typed(inputs) and self._durations.is_slow(names):
            self.pause(inputs, job)  # no quick method could stand in for one that is compared
        with self._durations.timed(names):
            if self.other.subject is self.explainer.subject and other_inputs["target"] == inputs["target"]:
                first, second = self.explain_each(explainers, inputs, job)
            else:
                first = self.explain(explainers[0], inputs, job)
                second = self.explain(explainers[1], other_inputs, job)
        return self.with_first_check(ComparedPair(first, second), explainers[0], inputs, job)

    def statements(self, result: Any) -> list[Statement]:
        return [result.statement()]

    def publish(self, result: ComparedPair) -> dict[str, Any]:
        first, second = result.rows()
        scores = wire.scores([first.scores, second.scores])
        traits = super().publish(first)
        settings = "; ".join(f"{badge}: {each.settings()}" for badge, each in zip(BADGES, result.rows(), strict=True))
        summary = {"notes": result.notes(), "settings": settings, "same_model": result.same_model}
        summary["signed"] = first.signed or second.signed
        findings = {level: _finding(replace(result, level=level)) for level in LEVELS}
        return traits | {
            "_scores": scores,
            "_result": traits["_result"] | summary,
            "_other": wire.decision(second, None if self.subject is None else self.other.subject),
            "_checking": self.checking_state(result),
            "_findings": findings,
            "agreement": findings[self.level]["agreement"],
        }

    def _can_check(self, result: Any) -> bool:
        return isinstance(result, ComparedPair) and all(map(super()._can_check, result.rows()))

    def _is_checked(self, result: Any) -> bool:
        return len(result.checks) == 2 and not any(check.first for check in result.checks.values())

    def _first_checked(self, result: Any, row: int, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> Any:
        result, slowest = super()._first_checked(result, 0, explainer, inputs, job), self._pass_seconds
        result = super()._first_checked(result, 1, explainer, inputs, job)
        self._pass_seconds = max(slowest, self._pass_seconds)  # of B, much may have been run for A
        return result

    def _whole_checked(self, result: Any, row: int, explainer: Explainer, inputs: dict[str, Any], meter: Meter) -> Any:
        for side in range(self.rows_checked):
            result = super()._whole_checked(result, side, explainer, inputs, meter)
        return result

    def _words_of(
        self, result: Any, row: int, explainer: Explainer, inputs: dict[str, Any], recorded: bool = True
    ) -> HiddenWords:
        """The words of A (row 0) or of B, which are hidden in the same way for both."""
        explainers, own = self.explainers_for(inputs), (inputs, _other_inputs(inputs))[row]
        ablation = self._ablation_for(result.rows()[row], explainers[row].subject)
        way = checking.way_of(*(each.method for each in explainers))
        words: HiddenWords = checking.words_of(result.rows()[row], ablation, way, own["target"], recorded)
        return words

    def _show_check(self, job: jobs.Job, before: Any, checked: Any) -> None:
        with self._lock, self.hold_sync():
            if self._check_job is job and self._computed.rows() == before.rows():
                self.replace_result(checked)
                self._findings = {level: _finding(replace(checked, level=level)) for level in LEVELS}

    def sheet(self) -> Sheet:
        pair: ComparedPair = self.result
        texts, rows = pair.texts(self.difference), pair.listed()
        shares = [share for row in rows for share in row.shares]
        low, high = min(0.0, *shares), max(0.0, *shares) or 1.0
        unit = f"100\u202f% = {SCALES[pair.scale]}"
        blocks: list[Block] = [
            Sentence(pair.sentence(), self.statement.notes or [self.statement.badge]),
            Beside([(Heading(phrases(title)), text) for title, text in texts[:2]]),
            *(block for _, text in texts[2:] for block in (text, Legend(True, "A higher", low="B higher"))),
            Legend(any(np.any(scores < 0) for scores in pair.shares), "for", unit),
            *self._decisions(pair),
            Heading(phrases(pair.heading()), unit),
            CellTable(
                [(row.name + row.part, Bar(row.shares[1], low, high, ring=row.shares[0]), *row.texts) for row in rows],
                right=(2, 3),
            ),
            Note(KEY),
        ]
        return Sheet(pair.caption(), blocks, pair.notes())

    def _decisions(self, pair: ComparedPair) -> list[Block]:
        """The classes: of one model once, of two models or targets for each."""
        lines = [
            class_line(each, decision.get("probabilities"))
            for each, decision in zip(pair.rows(), (self._result, self._other), strict=True)
        ]
        if pair.same_model and pair.first.target == pair.second.target:
            return [*lines[0]]
        return [Line([badge, *line.items]) for badge, blocks in zip(BADGES, lines, strict=True) for line in blocks]


def _finding(pair: ComparedPair) -> dict[str, Any]:
    """What the page says of a pair at one level, by scale."""
    scaled = {scale: replace(pair, scale=scale) for scale in SCALES}
    return {
        "heading": pair.heading(),
        "agreement": pair.agreement,
        "units": SCALES,
        "maxima": pair.maxima(),
        "statements": {scale: each.statement().to_json() for scale, each in scaled.items()},
        "rows": {scale: [row._asdict() for row in each.listed()] for scale, each in scaled.items()},
    }


def _other_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: inputs[f"other_{name}"] for name in SETTINGS} | {"text": inputs["text"]}
