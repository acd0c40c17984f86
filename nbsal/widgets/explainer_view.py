"""Views of one explainer, whose text, method, layer, target and tau are traits; a change of any is computed at once."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

import traitlets

from nbsal.explain.explained import Explanation
from nbsal.explain.lazy import Explainer, batches
from nbsal.explain.saliency import Saliency
from nbsal.methods.lazy import Decoded, LayerMethod, Method, Subject, catalogue
from nbsal.model.target import Contrast
from nbsal.render.colours import Scale
from nbsal.render.exports import Exportable
from nbsal.render.sheet import Sheet, coloured
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.widgets.base import STEPS
from nbsal.widgets.checked_view import CheckedView
from nbsal.widgets.content.legends import READOUT
from nbsal.widgets.content.text_steps import text_steps
from nbsal.widgets.page import jobs, wire
from nbsal.widgets.page.choices import MethodTraits, offered_methods, view_choices
from nbsal.widgets.page.next_view import Step
from nbsal.widgets.page.slow_methods import QUICK, Durations, takes_many_passes, wait_for_pause


class TextTrait(traitlets.TraitType[Any, Any]):
    """A text, or a pair of texts."""

    info_text = "a text, or a pair (text, text)"

    def validate(self, obj: Any, value: Any) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(part, str) for part in value):
            return tuple(value)
        raise InputError(f"text must be a str or a pair (str, str), not {value!r:.80}.", argument="text", value=value)


def _target_to_json(value: Any, _: Any = None) -> Any:
    if isinstance(value, Contrast):
        return {"contrast": [value.first, value.second]}
    return list(value) if isinstance(value, tuple) else value


def _target_from_json(value: Any, _: Any = None) -> Any:
    """The target that a page sent: a class, a token, a position, or [...] or {"contrast": [first, second]} of them."""
    is_contrast = isinstance(value, dict) and list(value) == ["contrast"]
    parts = value["contrast"] if is_contrast else value
    if isinstance(parts, list) and len(parts) == 2 and all(isinstance(part, str | int | None) for part in parts):
        return Contrast(*parts) if is_contrast else tuple(parts)
    if is_contrast or not isinstance(parts, str | int | None):
        raise InputError(f"target cannot be {value!r:.60}.", argument="target", value=value)
    return parts


TARGET_JSON = {"to_json": _target_to_json, "from_json": _target_from_json}


class Shading(Exportable, traitlets.HasTraits):
    """How text is coloured by its scores.

    `level` "word" sums the scores of each word's tokens; `signed` False colours only evidence for the target; `clip`
    is the share of the largest score that gets full colour; `gamma` below 1 makes small scores easier to see. None of
    them changes any score.
    """

    level = traitlets.Enum(("token", "word"), "word").tag(sync=True, page=True)
    signed = traitlets.Bool(True).tag(sync=True, page=True)
    gamma = traitlets.Float(1.0, min=0.2, max=3.0).tag(sync=True, page=True)
    clip = traitlets.Float(1.0, min=0.05, max=1.0).tag(sync=True, page=True)
    _readout = traitlets.Dict(READOUT).tag(sync=True)

    def drawn_sheet(self) -> Sheet:
        """The sheet, coloured like the page."""
        sheet: Sheet = coloured(self.sheet(), Scale(self.signed, self.gamma, self.clip))
        return sheet


class ExplainerView(Shading, MethodTraits, CheckedView):
    """A view of an explainer and a text, or of a finished result, that colours the text by its scores."""

    inputs: ClassVar[tuple[str, ...]] = ("text", "method", "layer", "target", "tau")
    accepts: ClassVar[tuple[type, ...]] = (Saliency,)
    layer_methods_only: ClassVar[bool] = False
    omitted_steps: ClassVar[Collection[str]] = ()  # what the view shows itself

    text = TextTrait("").tag(sync=True, page=True)
    target = traitlets.Any(None).tag(sync=True, page=True, **TARGET_JSON)
    tau = traitlets.Int(None, allow_none=True).tag(sync=True, page=True)
    _tokens = traitlets.Dict().tag(sync=True)
    _scores = traitlets.Bytes().tag(sync=True)
    _result = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Any, text: Any = None, **settings: Any) -> None:
        self._check_settings(settings)  # `texts` is a misspelling, not a missing text
        if text is None and isinstance(source, Explainer | Subject):
            message = f'{type(self).__name__} needs a text. Pass text=..., for example text="A joy.".'
            raise InputError(message, argument="text", value=None)
        self._durations = Durations()
        self._unpaused_text: Any = None  # the message may come before or after the text itself
        super().__init__(source, **({} if text is None else {"text": text}) | settings)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        methods = offered_methods(explainer, self.layer_methods_only)
        return method_traits(explainer.method) | {"_choices": view_choices(explainer, methods)}

    def from_result(self, result: Any) -> dict[str, Any]:
        return result_traits(result) | {"_live": False}

    @property
    def classes(self) -> list[tuple[str, float]]:
        """The classes on display with their probabilities."""
        return list(self._result.get("probabilities", ()))

    @property
    def target_probability(self) -> float | None:
        """The probability of what is explained, if it is one of the outcomes listed."""
        return dict(self.classes).get(self._result.get("target", ""))

    def explainer_for(self, inputs: dict[str, Any]) -> Explainer:
        """The explainer with the current settings."""
        return with_settings(self.explainer, inputs)

    def explainers_for(self, inputs: dict[str, Any]) -> list[Explainer]:
        """The explainers of the whole view with the current settings."""
        return [self.explainer_for(inputs)]

    def steps(self) -> dict[str, Step]:
        if self.explainer is None or self.result is None:
            return {}
        saliency = self.result.rows()[self.checked_row]
        outcomes = self._result.get("probabilities", ())
        steps = text_steps(self.explainer_for(self._requested), saliency, self.target, outcomes, self._choices)
        for name in self.omitted_steps:
            steps.pop(name, None)
        return steps

    @traitlets.observe("text")
    def _clear_selection(self, change: Any) -> None:
        if self.result is not None:  # positions in the previous text mean nothing in the new one
            self.selection, self.hover = [], None

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        if self.plain_result is not None:
            return self.plain_result
        return self.explain_typed(self.explainer_for(inputs), inputs, job)

    def explain_typed(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> Any:
        """Explain a text that may still be typed: a slow method waits for a pause, while a preview is shown.

        The first text has a preview too if its method takes many passes.
        """
        name, typed = explainer.method.name, self._is_typed(inputs)
        first_and_long = self.result is None and takes_many_passes(explainer, inputs["text"])
        if first_and_long or (typed and self._durations.is_slow(name)):
            if name != QUICK and not self._durations.is_slow(QUICK):
                self._show_preview(explainer, inputs, job)
            if typed:
                self.pause(inputs, job)
        with self._durations.timed(name):
            result = self.explain(explainer, inputs, job)
        return self.with_first_check(result, explainer, inputs, job)

    def pause(self, inputs: dict[str, Any], job: jobs.Job) -> None:
        """Wait until the text is no longer typed, or its reader wants it explained at once."""
        text = self._as_json(inputs).get("text")
        wait_for_pause(job, self._worker, lambda: self._unpaused_text == text)

    def handle_skip_pause(self, text: Any) -> str:
        """Answer a page whose reader wants a text explained at once, though the method is slow."""
        self._unpaused_text = text
        return "skipped"

    def preview(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> Any:
        """The result of a quick method, which stands in for that of a slow one; None shows nothing."""
        result = explainer(inputs["text"], inputs["target"])
        return self.with_first_check(result, explainer, inputs, job)

    def explain(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> Any:
        """Explain the text with an explainer that has the current settings."""
        return self.explain_each([explainer], inputs, job)[0]

    def explain_each(self, explainers: Sequence[Explainer], inputs: dict[str, Any], job: jobs.Job) -> list[Saliency]:
        """Explain the text with several explainers of one subject from a single recorded trace."""
        encoded = explainers[0].subject.encode(inputs["text"])
        named = dict(zip(map(str, range(len(explainers))), explainers, strict=True))
        meter = self.meter(job, STEPS).part(STEPS, 1)
        results = batches.explain_batch(named, encoded, [inputs["target"]], meter)
        return list(chain(*results.values()))

    def shown_frame(self) -> "pandas.DataFrame":
        """The scores of words, or of tokens if these are shown."""
        is_words = self.level == "word" and isinstance(self.result, Saliency)
        return self.result.by_word() if is_words else self.to_frame()

    def publish(self, result: Any) -> dict[str, Any]:
        rows = result.scores if result.scores.ndim == 2 else [result.scores]
        scores = wire.scores(rows)
        decision = wire.decision(result, self.subject)
        probability = dict(decision["probabilities"]).get(result.target)
        statements = [saliency.statement(probability).to_json() for saliency in result.rows()]
        shown = {"_statements": statements, "_checking": self.checking_state(result)}
        return shown | {"_tokens": wire.tokens(result.row), "_scores": scores, "_result": decision}

    def _is_typed(self, inputs: dict[str, Any]) -> bool:
        """Whether the text has changed since the result on display."""
        return self.result is not None and self._inputs.get("text") != self._as_json(inputs).get("text")

    def _show_preview(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> None:
        quick = Explainer(explainer.subject, QUICK, long=explainer.long)
        with suppress(Exception), self._durations.timed(QUICK):  # what is wrong with the text, the slow method tells
            if (result := self.preview(quick, inputs, job)) is not None:
                self.show_partial(job, result, preview=True)


def with_settings(explainer: Explainer, inputs: dict[str, Any]) -> Explainer:
    """The explainer with another method, layer or tau; its own method keeps all its other settings."""
    method = explainer.method if inputs["method"] == explainer.method.name else catalogue.create(inputs["method"])
    if isinstance(method, Decoded):
        method = replace(method, tau=inputs["tau"], method=replace(method.method, layer=inputs.get("layer")))
    elif isinstance(method, LayerMethod):
        method = replace(method, layer=inputs.get("layer"))
    return Explainer(explainer.subject, method, long=explainer.long)


def method_traits(method: Method) -> dict[str, Any]:
    layer = method.layer if isinstance(method, LayerMethod | Decoded) else None
    return {"method": method.name, "layer": layer, "tau": getattr(method, "tau", None)}


def result_traits(result: Explanation) -> dict[str, Any]:
    """The traits that describe how a finished result was computed, read from its provenance."""
    parameters = result.provenance.get("parameters", {})
    layer, tau = parameters.get("layer"), parameters.get("tau")
    return {
        "text": result.text,
        "method": result.method,
        "layer": layer if isinstance(layer, int) else None,
        "tau": tau if isinstance(tau, int) else None,
    }
