"""Slow methods: while a text is typed, they wait for a pause, and a quick method explains it in the meantime."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from time import perf_counter

from nbsal.explain.lazy import Explainer
from nbsal.support.errors import Cancelled, NbsalError
from nbsal.support.validation import Text
from nbsal.widgets.page.jobs import Job, Worker

QUICK = "attn-lrp"  # the default, in about two passes
SLOW = 1.0  # seconds from which a method is slow
MANY = 50  # passes from which a method that has not run yet is taken for a slow one
PAUSE = 0.4  # seconds without a new text
STEP = 0.02  # seconds between two looks at what else waits


class Durations:
    """How long the last run of each method took."""

    def __init__(self) -> None:
        self._seconds: dict[Hashable, float] = {}

    def is_slow(self, name: Hashable) -> bool:
        """Whether the last run of a method took long, or was cancelled after a long time."""
        return self._seconds.get(name, 0.0) > SLOW

    @contextmanager
    def timed(self, name: Hashable) -> Iterator[None]:
        start, least = perf_counter(), self._seconds.get(name, 0.0)
        try:
            yield
            least = 0.0
        finally:
            self._seconds[name] = max(perf_counter() - start, least)  # a run that stopped early tells only the least


def takes_many_passes(explainer: Explainer, text: Text) -> bool:
    """Whether a method takes so many passes for a text that it may be slow."""
    method = explainer.method
    try:
        (row,) = explainer.subject.encode(text)
    except NbsalError:  # the method says what is wrong with the text
        return False
    return hasattr(method, "cost") and method.cost.passes(method.sizes(row))[0] > MANY


def wait_for_pause(job: Job, worker: Worker, skipped: Callable[[], bool], seconds: float | None = None) -> None:
    """Wait until no newer text has come for a while, or the pause is skipped; raise Cancelled if a text comes.

    What else waits for the worker is run in the meantime.
    """
    end = perf_counter() + (PAUSE if seconds is None else seconds)
    while not skipped() and (rest := end - perf_counter()) > 0:
        worker.run_waiting()
        if job.cancel.wait(min(rest, STEP)):
            raise Cancelled("Cancelled.")
