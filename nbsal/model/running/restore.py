"""Changes to a model that are undone at the end in reverse order, also after errors and repeated interrupts.

An interrupt may strike between any two lines, those that undo a change included. Therefore an undo is recorded before
its change and may run twice, and whatever a context leaves because its exit was struck is undone by the enclosing one.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from traceback import clear_frames
from types import TracebackType
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

Result = TypeVar("Result")
ATTEMPTS = 5  # at one undo; further errors are the undo's, not interrupts


class ModelState:
    """The lock of a model, shared by all of its subjects, and its changes that are not undone yet, oldest first."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changes: list[Changes] = []


_STATES: WeakKeyDictionary[nn.Module, ModelState] = WeakKeyDictionary()


def state(model: nn.Module) -> ModelState:
    """The lock and the pending changes of a model."""
    return _STATES.setdefault(model, ModelState())


def share_state(copy: nn.Module, model: nn.Module) -> None:
    """Let a copy that has the same weights share the lock of the model."""
    _STATES[copy] = state(model)


class Changes:
    """A context in which a model is changed; its exit undoes the changes, and those that nested contexts have left."""

    def __init__(self, model: nn.Module) -> None:
        self.thread = threading.get_ident()
        self._pending = state(model).changes
        self._undos: list[Callable[[], object]] = []

    def record_undo(self, function: Callable[..., object], *args: Any) -> None:
        """Call `function` at the end, more than once if it is interrupted; call this before making the change."""
        self._undos.append(partial(function, *args))
        if self not in self._pending:
            self._pending.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        interrupt: BaseException | None = None
        while self in self._pending:
            try:
                self._pending[-1].undo()
                self._pending.pop()
            except BaseException as interruption:
                interrupt = interruption
        if interrupt is not None:
            raise interrupt

    def undo(self) -> None:
        failures = 0
        while self._undos:
            try:
                self._undos[-1]()
                self._undos.pop()
            except Exception:
                failures += 1
                if failures == ATTEMPTS:
                    self._undos.pop()
                    raise


def remove_hooks(modules: Iterable[nn.Module], *functions: Callable[..., object] | None) -> None:
    """Remove forward hooks, whether or not an interrupt has left a handle for them."""
    for module in modules:
        for registered, with_kwargs in (
            (module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs),
            (module._forward_hooks, module._forward_hooks_with_kwargs),
        ):
            for number, hook in list(registered.items()):
                if any(hook is function for function in functions):
                    with_kwargs.pop(number, None)
                    registered.pop(number, None)


@contextmanager
def hooks(
    model: nn.Module,
    modules: Iterable[nn.Module],
    before: Callable[..., object] | None = None,
    after: Callable[..., object] | None = None,
    first: bool = False,
) -> Iterator[None]:
    """Call functions, which also get keyword arguments, before and after some modules of a model run.

    A call that comes `first` precedes those of other hooks.
    """
    modules = list(dict.fromkeys(modules))
    with Changes(model) as changes:
        changes.record_undo(remove_hooks, modules, before, after)
        for module in modules:
            if before is not None:
                module.register_forward_pre_hook(before, with_kwargs=True, prepend=first)
            if after is not None:
                module.register_forward_hook(after, with_kwargs=True)
        yield


class Mode(TorchFunctionMode):
    """A torch mode that can be left at any moment.

    Torch takes a mode off its stack while the mode runs, and an interrupt can delay its return until the traceback is
    deleted. A mode that comes back after it was left must do nothing: `__torch_function__` checks `active`.
    """

    active = False

    def enter(self, changes: Changes) -> None:
        """Enter the mode until the changes are undone."""
        changes.record_undo(self._leave)
        self.active = True
        self.__enter__()  # type: ignore[no-untyped-call]

    def _leave(self) -> None:
        self.active = False
        _leave_modes(lambda modes: self in modes)


def _leave_modes(condition: Callable[[list[TorchFunctionMode]], bool]) -> None:
    """Leave the innermost mode of this thread while the condition holds for the list of them, outermost first."""
    while condition(modes := torch.overrides._get_current_function_mode_stack()):  # type: ignore[no-untyped-call]
        modes[-1].__exit__(None, None, None)


def exclusively(model: nn.Module, run: Callable[[], Result]) -> Result:
    """Call a function while holding the model's lock; undo the changes that it leaves, and those of torch's modes."""
    _leave_modes(_ends_inactive)
    section = _Section(model)
    # In one line: an interrupt as the block ends strikes the innermost exit only. Three sections: one may be struck
    # again while it undoes that. The lock's exit is not in Python, and never the innermost.
    with state(model).lock, section, section, section:
        section.record_undo(_leave_modes, _ends_inactive)
        section.record_undo(_restore_gradients, torch.is_grad_enabled())
        return run()


class _Section(Changes):
    """The changes of a function that runs exclusively."""

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if traceback is not None and not isinstance(error, Exception):
                clear_frames(traceback)  # ends what the interrupt has left suspended, and frees tensors
        finally:
            super().__exit__(error_type, error, traceback)


def _ends_inactive(modes: list[TorchFunctionMode]) -> bool:
    return bool(modes) and isinstance(modes[-1], Mode) and not modes[-1].active


def _restore_gradients(enabled: bool) -> None:
    if torch.is_grad_enabled() != enabled:
        torch.set_grad_enabled(enabled)


def _restore_in_child() -> None:
    """Undo, in a forked process, the changes of the threads that it does not have, and renew all locks."""
    torch.set_num_threads(1)  # OpenMP would wait for its threads, which are not there either
    here = threading.get_ident()
    for model, pending in list(_STATES.items()):
        for changes in reversed([changes for changes in pending.changes if changes.thread != here]):
            changes.undo()
        _STATES[model] = ModelState()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restore_in_child)
