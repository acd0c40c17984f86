"""Views that show more of a text than its scores, in parts that are computed one after the other and cached."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter
from nbsal.widgets.explainer_view import ExplainerView
from nbsal.widgets.page import jobs
from nbsal.widgets.page.last_value import LastValue
from nbsal.widgets.page.slow_methods import wait_for_pause

PAUSE = 0.2  # seconds without a new text before more than its scores is computed


@dataclass(frozen=True)
class PanelJob:
    """What a panel may call while it computes: `meter(total)` counts its steps, `show(value)` shows a first version."""

    meter: Callable[[int], Meter]
    show: Callable[[Any], None]


class Panel:
    """A panel of a view: something computed from a text beside its scores, and the traits that show it.

    `depends_on` names the inputs that the panel needs, or is None if it needs the scores. While it is computed, the
    page shows no value, or with `keeps_previous` the previous one. A quick panel is shown `with_scores`, at once; the
    others follow one by one.
    """

    depends_on: ClassVar[tuple[str, ...] | None] = None
    keeps_previous: ClassVar[bool] = False
    with_scores: ClassVar[bool] = False

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PanelJob) -> Any:
        """Compute the value of the panel."""
        raise NotImplementedError

    def publish(self, value: Any) -> dict[str, Any]:
        """Return the traits that show a value, or that there is none (None)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class TextResult:
    """The scores of a text, and the values of those panels that are computed, by name."""

    saliency: Saliency
    parts: dict[str, Any] = field(default_factory=dict)


class CachedView(ExplainerView):
    """A view of a text's scores and of further panels; `result` is the Saliency.

    `reading_inputs` names the inputs that the scores depend on. `from_explainer` fills `parts`.
    """

    reading_inputs: ClassVar[tuple[str, ...]] = ExplainerView.inputs

    def __init__(self, source: Any, text: Any = None, **settings: Any) -> None:
        self.parts: dict[str, Panel] = {}
        self._saliency = LastValue()
        self._values: dict[str, LastValue] = {}
        super().__init__(source, text, **settings)

    @property
    def result(self) -> Any:
        """The Saliency on display, or the finished result."""
        return self._computed.saliency if isinstance(self._computed, TextResult) else self._computed

    def part(self, name: str) -> Any:
        """The value of a part on display, or None."""
        return self._computed.parts.get(name) if isinstance(self._computed, TextResult) else None

    def active_parts(self, inputs: dict[str, Any]) -> Iterable[str]:
        """The parts to compute; others are only shown if their cached values are still valid."""
        return self.parts

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        if self.plain_result is not None:
            return self.plain_result
        typed = self._is_typed(inputs)
        version = self.subject.version  # after training, nothing cached is valid
        key = [version, *(inputs[name] for name in self.reading_inputs)]
        saliency = self._saliency.get(key, lambda: self.explain_typed(self.explainer_for(inputs), inputs, job))
        keys = self._part_keys(key, inputs)
        result = self._with_cached_parts(saliency, keys)
        pending = [name for name in self.active_parts(inputs) if not self._values[name].is_for(keys[name])]
        displayed = self.result is saliency
        for name in sorted(pending, key=lambda name: not self.parts[name].with_scores):
            if not (displayed or self.parts[name].with_scores):
                self.show_partial(job, TextResult(saliency, dict(result.parts)))
                if typed:  # or the scores of the next text would wait for these parts
                    wait_for_pause(job, self._worker, lambda: False, PAUSE)
                    typed = False
            result.parts[name] = self._compute_part(name, keys[name], result, inputs, job)
            displayed = False
        return result

    def preview(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> TextResult | None:
        saliency = super().preview(explainer, inputs, job)
        return self._with_cached_parts(saliency, self._part_keys([saliency], inputs))

    def replace_result(self, result: Any) -> None:
        self._saliency.replace(result)
        self._computed = TextResult(result, self._computed.parts)

    def publish(self, result: TextResult) -> dict[str, Any]:
        traits = super().publish(result.saliency)
        for name, part in self.parts.items():
            traits |= part.publish(result.parts.get(name))
        return traits

    def selected(self) -> "pandas.DataFrame":
        return self._selected_rows(self.result.to_frame())

    def _compute_part(self, name: str, key: Any, result: TextResult, inputs: dict[str, Any], job: jobs.Job) -> Any:
        def show(value: Any) -> None:
            self.show_partial(job, TextResult(result.saliency, result.parts | {name: value}))

        part_job = PanelJob(partial(self.meter, job), show)
        return self._values[name].get(key, lambda: self.parts[name].compute(result.saliency, inputs, part_job))

    def _part_keys(self, key: list[Any], inputs: dict[str, Any]) -> dict[str, Any]:
        """What the values of the parts are cached for; those that need the scores, for the `key` of these."""
        version = self.subject.version
        return {
            name: key if part.depends_on is None else [version, *(inputs[own] for own in part.depends_on)]
            for name, part in self.parts.items()
        }

    def _with_cached_parts(self, saliency: Saliency, keys: dict[str, Any]) -> TextResult:
        """A result with those parts that are valid already, or that stay until the next value."""
        result = TextResult(saliency)
        for name, part in self.parts.items():
            cache = self._values.setdefault(name, LastValue())
            if part.keeps_previous or cache.is_for(keys[name]):
                result.parts[name] = cache.value
        return result
