"""Views that show more than scores, in panels that are computed one after the other and cached."""

from collections import defaultdict
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
    """A panel of a view: something computed from what is explained beside its scores, and the traits that show it.

    `depends_on` names the inputs that the panel needs, or is None if it needs the scores. While it is computed, the
    page shows no value, or with `keeps_previous` the previous one. A quick panel is shown `with_scores`, at once; the
    others follow one by one.
    """

    depends_on: ClassVar[tuple[str, ...] | None] = None
    keeps_previous: ClassVar[bool] = False
    with_scores: ClassVar[bool] = False

    def compute(self, explained: Any, inputs: dict[str, Any], job: PanelJob) -> Any:
        """Compute the value of the panel."""
        raise NotImplementedError

    def publish(self, value: Any) -> dict[str, Any]:
        """Return the traits that show a value, or that there is none (None)."""
        raise NotImplementedError


class PanelCache(dict[str, Panel]):
    """The panels of a view by name, with their last values, which are computed again when their keys change."""

    def __init__(self) -> None:
        self._values: defaultdict[str, LastValue] = defaultdict(LastValue)

    def keys_of(self, scored: list[Any], unscored: list[Any], inputs: dict[str, Any]) -> dict[str, Any]:
        """What the values are cached for: what is `scored` where a panel needs that, else its inputs and `unscored`."""
        return {
            name: scored if panel.depends_on is None else [*unscored, *(inputs[own] for own in panel.depends_on)]
            for name, panel in self.items()
        }

    def cached(self, keys: dict[str, Any]) -> dict[str, Any]:
        """The values that are valid already, or that stay until the next one."""
        return {
            name: self._values[name].value
            for name, panel in self.items()
            if panel.keeps_previous or self._values[name].is_for(keys[name])
        }

    def pending(self, names: Iterable[str], keys: dict[str, Any], displayed: bool) -> list[tuple[str, bool]]:
        """Which of some panels to compute, those that are shown with the scores first.

        With each stands whether what is there is to be displayed before; the scores may be `displayed` already.
        """
        pending = [name for name in names if not self._values[name].is_for(keys[name])]
        pending.sort(key=lambda name: not self[name].with_scores)
        return [(name, not self[name].with_scores and (at > 0 or not displayed)) for at, name in enumerate(pending)]

    def compute(self, name: str, explained: Any, keys: dict[str, Any], inputs: dict[str, Any], job: PanelJob) -> Any:
        """The value of a panel, computed if there is none for its key."""
        return self._values[name].get(keys[name], lambda: self[name].compute(explained, inputs, job))

    def publish(self, values: dict[str, Any]) -> dict[str, Any]:
        """The traits of all panels."""
        traits: dict[str, Any] = {}
        for name, panel in self.items():
            traits |= panel.publish(values.get(name))
        return traits


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
        self.parts = PanelCache()
        self._saliency = LastValue()
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
        keys = self.parts.keys_of(key, [version], inputs)
        result, displayed = TextResult(saliency, self.parts.cached(keys)), self.result is saliency
        for name, shows in self.parts.pending(self.active_parts(inputs), keys, displayed):
            if shows:
                self.show_partial(job, TextResult(saliency, dict(result.parts)))
                if typed:  # or the scores of the next text would wait for these parts
                    wait_for_pause(job, self._worker, lambda: False, PAUSE)
                    typed = False
            part_job = PanelJob(partial(self.meter, job), partial(self._show_part, job, result, name))
            result.parts[name] = self.parts.compute(name, saliency, keys, inputs, part_job)
        return result

    def preview(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> TextResult | None:
        saliency = super().preview(explainer, inputs, job)
        keys = self.parts.keys_of([saliency], [self.subject.version], inputs)
        return TextResult(saliency, self.parts.cached(keys))

    def replace_result(self, result: Any) -> None:
        self._saliency.replace(result)
        self._computed = TextResult(result, self._computed.parts)

    def publish(self, result: TextResult) -> dict[str, Any]:
        return super().publish(result.saliency) | self.parts.publish(result.parts)

    def selected(self) -> "pandas.DataFrame":
        return self._selected_rows(self.result.to_frame())

    def _show_part(self, job: jobs.Job, result: TextResult, name: str, value: Any) -> None:
        self.show_partial(job, TextResult(result.saliency, result.parts | {name: value}))
