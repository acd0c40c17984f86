"""Progress and cancel: one small protocol for every long call.

`progress` is True (a bar, once the work takes longer than a second), False, or a callable `(done, total)`;
`total` is None while it is unknown. `cancel` is a `threading.Event`; setting it ends the call with `Cancelled`
before its next step.
"""

from collections.abc import Callable
from threading import Event
from types import TracebackType
from typing import Any, Self

from nbsal.errors import Cancelled, InputError

Progress = bool | Callable[[int, int | None], object]


class Meter:
    """Counts steps done, reports them and stops the work when asked to.

    >>> with Meter(2, progress=lambda done, total: print(done, total)) as meter:
    ...     meter.step(2)
    2 2
    """

    def __init__(self, total: int | None, progress: Progress = False, cancel: Event | None = None) -> None:
        if cancel is not None and not hasattr(cancel, "is_set"):
            raise InputError(f"cancel is a threading.Event, not {type(cancel).__name__}.")
        self.total = total
        self.done = 0
        self._exact = 0.0
        self._cancel = cancel
        self._report = progress if callable(progress) else None
        self._bar: Any = None
        if progress is True:
            # tqdm picks a text bar or a notebook bar by itself.
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, delay=1.0, leave=False)

    def step(self, count: float = 1) -> None:
        """Say that `count` more steps are done; only whole steps are reported."""
        self._exact += count
        whole = int(self._exact + 1e-6) - self.done
        if whole <= 0:
            return
        self.done += whole
        if self._bar is not None:
            self._bar.update(whole)
        if self._report:
            self._report(self.done, self.total)

    def reach(self, count: float) -> None:
        """Say that `count` steps are done in all."""
        self.step(count - self._exact)

    def part(self, worth: float, total: int) -> "Meter":
        """A meter of `total` smaller steps that together are `worth` steps of this one, and stop with it.

        >>> with Meter(4, progress=lambda done, total: print(done, total)) as meter:
        ...     meter.part(worth=2, total=10).step(5)
        1 4
        """
        return _Part(self, worth, total)

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


class _Part(Meter):
    """Steps of a smaller kind, told to the meter that they are part of."""

    def __init__(self, whole: Meter, worth: float, total: int) -> None:
        super().__init__(total)
        self._whole = whole
        self._worth = worth / max(total, 1)

    def step(self, count: float = 1) -> None:
        super().step(count)
        self._whole.step(count * self._worth)

    def check(self) -> None:
        self._whole.check()
