"""Progress and cancel: one small protocol for every long call.

`progress` is True (a bar, once the work takes longer than a second), False, or a callable `(done, total)`;
`total` is None while it is unknown. `cancel` is a `threading.Event`; setting it ends the call with `Cancelled`
before its next step.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from threading import Event
from types import TracebackType
from typing import Any, Self, TypeVar

from nbsal.errors import Cancelled

Progress = bool | Callable[[int, int | None], object]
T = TypeVar("T")


class Meter:
    """Counts steps done, reports them and stops the work when asked to.

    >>> with Meter(2, progress=lambda done, total: print(done, total)) as meter:
    ...     meter.step(2)
    2 2
    """

    def __init__(self, total: int | None, progress: Progress = False, cancel: Event | None = None) -> None:
        self.total = total
        self.done = 0
        self._cancel = cancel
        self._report = progress if callable(progress) else None
        self._bar: Any = None
        if progress is True:
            # tqdm picks a text bar or a notebook bar by itself.
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, delay=1.0, leave=False)

    def step(self, count: int = 1) -> None:
        """Say that `count` more steps are done."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)
        if self._report:
            self._report(self.done, self.total)

    def check(self) -> None:
        """Raise `Cancelled` if the caller asked to stop."""
        if self._cancel is not None and self._cancel.is_set():
            total = "" if self.total is None else f" of {self.total}"
            raise Cancelled(f"Cancelled after {self.done}{total} steps.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def track(items: Iterable[T], progress: Progress = False, cancel: Event | None = None) -> Iterator[T]:
    """The items one by one, counted as they are used up.

    >>> list(track("ab", progress=lambda done, total: print(done, total)))
    1 2
    2 2
    ['a', 'b']
    """
    total = len(items) if isinstance(items, Sized) else None
    with Meter(total, progress, cancel) as meter:
        for item in items:
            meter.check()
            yield item
            meter.step()
