"""Parted: a view that shows more of a text than its scores: parts, each when it is ready, kept while it stays true."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from nbsal.explainer import Explainer
from nbsal.saliency import Saliency
from nbsal.widgets import jobs
from nbsal.widgets.explainer_view import HighlightView, with_settings

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class TextParts:
    """A reading, and what else of its text is known so far, by name."""

    reading: Saliency
    parts: dict[str, Any] = field(default_factory=dict)


class CachedView(HighlightView):
    """A view of a reading and its parts.

    `reads` are the inputs that the reading rests on. A part NAME is made by `find_NAME(reading, wanted, job)` and shown
    by `show_NAME(part)`, which is given None while there is none; `rests` names the inputs it rests on, or None where
    it rests on the reading itself. `result` is always the reading.
    """

    reads: ClassVar[tuple[str, ...]] = HighlightView.inputs
    rests: ClassVar[dict[str, tuple[str, ...] | None]] = {}

    def __init__(self, *source: Any, **settings: Any) -> None:
        self._known: dict[str, tuple[Any, Any]] = {}
        super().__init__(*source, **settings)

    def asked(self, wanted: dict[str, Any]) -> list[str]:
        """The parts that are looked for; others are shown if they are known."""
        return list(self.rests)

    def adjusted(self, wanted: dict[str, Any]) -> Explainer:
        """The explainer that reads the text."""
        return with_settings(self.explainer, wanted)

    def compute(self, wanted: dict[str, Any], job: jobs.Job) -> Any:
        reading = self.cached("reading", [wanted[name] for name in self.reads], lambda: self._read(wanted, job))
        keys = {name: reading if on is None else [wanted[one] for one in on] for name, on in self.rests.items()}
        parts = {name: self._known[name][1] for name, key in keys.items() if self._has(name, key)}
        for name in self.asked(wanted):
            if name in parts:
                continue
            if self.result is not reading:
                self.partly(job, TextParts(reading, dict(parts)))
            find = partial(getattr(self, f"find_{name}"), reading, wanted, job)
            parts[name] = self.cached(name, keys[name], find)
        return TextParts(reading, parts)

    def selected(self) -> "pandas.DataFrame":
        return self._chosen(HighlightView.to_frame(self))

    def cached(self, name: str, key: Any, work: Callable[[], Any]) -> Any:
        """What the work found for that key, if it was the last one asked for under the name; else what it finds now."""
        if not self._has(name, key):
            self._known[name] = key, work()
        return self._known[name][1]

    def publish(self, found: TextParts) -> None:
        self.result = found.reading
        super().publish(found.reading)
        for name in self.rests:
            getattr(self, f"show_{name}")(found.parts.get(name))

    def _has(self, name: str, key: Any) -> bool:
        return name in self._known and bool(self._known[name][0] == key)

    def _read(self, wanted: dict[str, Any], job: jobs.Job) -> Any:
        return self._given if self._given is not None else self.explain(self.adjusted(wanted), wanted, job)
