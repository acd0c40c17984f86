"""Progress reports and cancellation, the same for every long call.

`progress` is True (a progress bar, shown once the call takes longer than a second), False, or a function of
`(done, total)`; `total` is None while it is unknown. `cancel` is a `threading.Event`; when it is set, the call raises
`Cancelled` before its next step.
"""

from collections.abc import Callable
from threading import Event
from types import TracebackType
from typing import Any, Self

from nbsal.support.errors import Cancelled

__all__ = ("Meter", "Progress")

Progress = bool | Callable[[int, int | None], object]


class Meter:
    """Count the completed steps of a long call, report them, and stop the call when it is cancelled.

    >>> with Meter(2, progress=lambda done, total: print(done, total)) as meter:
    ...     meter.step(2)
    2 2
    """

    def __init__(self, total: int | None, progress: Progress = False, cancel: Event | None = None) -> None:
        self.total = total
        self.done = 0
        self._fractional = 0.0  # steps done, including parts of a step
        self._whole: Meter | None = None  # what this is a part of
        self._step_size = 0.0  # of a step, in steps of the whole
        self._cancel = cancel
        self._report = progress if callable(progress) else None
        self._bar: Any = None
        if progress is True:
            # tqdm chooses between a text bar and a notebook bar.
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, delay=1.0, leave=False)

    def step(self, count: float = 1) -> None:
        """Add `count` completed steps; only whole steps are reported."""
        self._fractional += count
        if self._whole is not None:
            self._whole.step(count * self._step_size)
            return
        whole = int(self._fractional + 1e-6) - self.done
        if whole <= 0:
            return
        self.done += whole
        if self._bar is not None:
            self._bar.update(whole)
        if self._report:
            self._report(self.done, self.total)

    def reach(self, count: float) -> None:
        """Set the number of completed steps to `count`."""
        self.step(count - self._fractional)

    def part(self, steps: float, total: int) -> "Meter":
        """A meter with `total` smaller steps, which together count as `steps` steps of this one.

        It is cancelled together with this one.

        >>> with Meter(4, progress=lambda done, total: print(done, total)) as meter:
        ...     meter.part(steps=2, total=10).step(5)
        1 4
        """
        part = Meter(total)
        part._whole, part._step_size = self, steps / max(total, 1)
        return part

    def check(self) -> None:
        """Raise `Cancelled` if the caller has cancelled."""
        if self._whole is not None:
            self._whole.check()
        if self._cancel is not None and self._cancel.is_set():
            total = "" if self.total is None else f" of {self.total}"
            raise Cancelled(f"Cancelled after step {self.done}{total}.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def __dir__() -> list[str]:
    return sorted(__all__)
