"""Torch modes of this thread, in which functions of tensors do something else, and how they end."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from traceback import clear_frames
from typing import Any, Protocol, Self, TypeVar

import torch
from torch.overrides import TorchFunctionMode

Result = TypeVar("Result")


class Mode(TorchFunctionMode):
    """A torch mode that can be left at any moment.

    Torch takes a mode off its stack while the mode runs, and an interrupt can delay its return until the traceback is
    deleted. A mode that comes back after it was left does nothing.
    """

    active = False

    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What a function of tensors returns in this mode."""
        raise NotImplementedError

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        return self.call(func, args, dict(kwargs or {})) if self.active else func(*args, **(kwargs or {}))

    def __enter__(self) -> Self:
        self.active = True
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        self.active = False
        _leave(lambda modes: self in modes)


class ChangedGradients(Protocol):
    """How the gradients of a model's passes are changed; a call makes the copy of a subject that has them."""

    def __call__(self, subject: Any) -> Any: ...
    @property
    def reads_weights(self) -> bool: ...
    def running(self, model: Any) -> AbstractContextManager[None]: ...


def undoing_modes(function: Callable[[], Result]) -> Result:
    """Call a function; afterwards the thread's modes are those of before, wherever an interrupt strikes."""
    _leave(_ends_inactive)
    depth, gradients = len(_modes()), torch.is_grad_enabled()

    def undo() -> None:
        _leave(lambda modes: len(modes) > depth or _ends_inactive(modes))
        if torch.is_grad_enabled() != gradients:
            torch.set_grad_enabled(gradients)

    try:  # twice, since the interrupt may strike in `undo`
        try:
            return function()
        except Exception:
            raise
        except BaseException as interrupt:
            clear_frames(interrupt.__traceback__)  # ends what the interrupt has left suspended, and frees tensors
            raise
        finally:
            undo()
    finally:
        undo()


def _leave(condition: Callable[[list[TorchFunctionMode]], bool]) -> None:
    """Leave the innermost mode while the condition holds for the list of them, outermost first."""
    while (modes := _modes()) and condition(modes):
        if isinstance(modes[-1], Mode):
            modes[-1].active = False
        TorchFunctionMode.__exit__(modes[-1], None, None, None)  # type: ignore[no-untyped-call]


def _ends_inactive(modes: list[TorchFunctionMode]) -> bool:
    return isinstance(modes[-1], Mode) and not modes[-1].active


def _modes() -> list[TorchFunctionMode]:
    return torch.overrides._get_current_function_mode_stack()  # type: ignore[no-any-return, no-untyped-call]
