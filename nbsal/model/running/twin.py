"""The twin of a model, which explanations run in its place.

It has the model's weights, in the same memory, and modules, hooks, flags and a configuration of its own. So what an
explanation changes in it cannot be seen by anyone who uses the model meanwhile, in any thread, and nothing has to be
undone: a twin that an interrupt has left is thrown away. Weights that are written in place change in both; any other
change of the model makes the twin a new one before it runs again.
"""

import copy
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from types import FunctionType, MethodType
from typing import Any, TypeVar
from weakref import WeakSet, WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from nbsal.model.loading.adapters import adapter_layers
from nbsal.model.loading.stand_in import StandIn
from nbsal.model.running.modes import undoing_modes
from nbsal.model.running.version import Version, tensors_version
from nbsal.support.errors import ModelError, NbsalError
from nbsal.support.warning import warn_once

Result = TypeVar("Result")
Convert = Callable[[Any], Any]
OWN_BUFFER = 2**20  # bytes of a buffer that has its own memory, since a forward pass may write to it
ATTEMPTS = 10  # at copying a model that another thread uses, whose attributes may change meanwhile
CHANGED_MEANWHILE = ("changed size during iteration", "mutated during iteration", "keys changed during iteration")
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
DEPTH = 3  # how deep the functions of a function are searched for modules
WRITTEN = "modified by an inplace operation"  # in torch's error
PRECISION = re.compile("Double|without overflow")  # in torch's errors
DIRECT = "run directly, since it cannot be copied: use it in no other thread while it is explained"

_TWINS: WeakSet["Twin"] = WeakSet()
_OF_MODELS: WeakValueDictionary[int, "Twin"] = WeakValueDictionary()  # each holds its model, so that ids stay unique


def twin_of(model: nn.Module) -> "Twin":
    """The twin of a model, one for all who explain it.

    >>> linear = nn.Linear(2, 1)
    >>> twin = twin_of(linear)
    >>> twin.module is linear, twin.module.weight.data_ptr() == linear.weight.data_ptr(), twin_of(linear) is twin
    (False, True, True)
    """
    return _OF_MODELS.get(id(model)) or _OF_MODELS.setdefault(id(model), Twin(model))


class Twin:
    """The twin of a model, or what `convert` makes of another twin's module; threads run it one after the other."""

    def __init__(self, source: "nn.Module | Twin", convert: Convert | None = None) -> None:
        self._parent = source if isinstance(source, Twin) else None
        self._original: Any = None if isinstance(source, Twin) else source
        self._convert = convert or share
        self._module: Any = None
        self._made_of: Any = None  # the model without what its weights hold, or the parent's version
        self._copied: Sequence[Tensor] = ()  # of the model, which the module does not share
        self._copied_version: Any = None
        self._version: Any = None  # of the model when it was last asked for
        self._is_current = False  # whether that is still the version, as it is as long as a run lasts
        self._read: dict[Any, Any] = {}  # of the module, by what reads it
        self._intact = False  # whether the last run has ended
        self.direct = False  # whether the model itself is run, since it cannot be copied
        self.renew_locks()
        _TWINS.add(self)

    def renew_locks(self) -> None:
        """In a new process, where no thread holds them."""
        self._lock = threading.RLock()
        self._running = threading.Lock()  # held while the module runs, so that a thread knows that it runs it already

    @property
    def lock(self) -> Any:
        """The re-entrant lock of the model, which all that is made of it has in common."""
        return self._lock if self._parent is None else self._parent.lock

    @property
    def model(self) -> Any:
        """The user's model, or else the module itself, which follows the user's when it runs the next time."""
        if self._parent is None:
            return self._original
        return self.module if self._module is None else self._module

    @property
    def module(self) -> Any:
        """What runs; between two runs it may become another one."""
        with self.lock, nullcontext():
            if not self._running.locked():
                self._renew_if_changed()
            return self._module

    @property
    def version(self) -> Any:
        """What the module's outputs depend on: the same object for as long as it is equal."""
        with self.lock, nullcontext():
            if not self._running.locked():
                self._renew_if_changed()
            if not self._is_current:
                version = self._made_of.with_numbers() if self._parent is None else self._made_of
                if self._version != version:
                    self._version = version
                self._is_current = True
            return self._version

    def run(self, function: Callable[[], Result]) -> Result:
        """Call a function that runs the module; what an interrupt leaves in this thread's torch modes is undone."""
        # An interrupt as a block ends can strike its innermost exit, which therefore is that of nothing.
        with self.lock, nullcontext():
            if self._running.locked():
                return function()
            with self._running, nullcontext():
                return undoing_modes(partial(self._run, function))

    def once(self, read: Callable[..., Result], *arguments: Any) -> Result:
        """What a function reads of the module, which holds for as long as the module is the same."""
        with self.lock, nullcontext():
            module, key = self.module, (read, arguments)
            if key not in self._read:
                self._read[key] = read(module, *arguments)
            result: Result = self._read[key]
            return result

    def _run(self, function: Callable[[], Result]) -> Result:
        self._renew_if_changed()
        self._intact = False
        try:
            with _evaluated(self._module) if self.direct else nullcontext(), _training_errors(self._module):
                result = function()
        except NbsalError:
            self._intact = True
            raise
        self._intact = True
        return result

    def _renew_if_changed(self) -> None:
        self._is_current = False
        if self._parent is None:  # what the model's weights hold, the module's do too, but for those that are copied
            now = _when_unchanged(Version, self._original)
            is_same = now == self._made_of and tensors_version(self._copied) == self._copied_version
        else:
            now = self._parent.version
            is_same = now is self._made_of
        if is_same and self._intact:
            return
        copied = [] if self._parent is not None else _when_unchanged(_copied, self._original)
        copied_version = tensors_version(copied)
        # An interrupt in between leaves a module that is made again, since what it is made of comes last.
        self._made_of, self._module, self._read = None, self._make_module(), {}
        self._copied, self._copied_version, self._intact = copied, copied_version, True
        self._made_of = now

    def _make_module(self) -> Any:
        if self._parent is not None:
            return self._convert(self._parent.module)
        if isinstance(self._original, StandIn):
            return self._original
        try:
            module, self.direct = _when_unchanged(self._convert, self._original), False
        except ModelError:
            module, self.direct = self._original, True
            warn_once(module, "direct", f"{type(module).__name__} is {DIRECT}.")
        return module

    def __deepcopy__(self, memo: dict[int, Any]) -> "Twin":
        with self.lock:
            return twin_of(copy.deepcopy(self.model, memo))

    def __reduce__(self) -> Any:
        return twin_of, (self.model,)


def share(model: Any) -> Any:
    """A copy of a model in evaluation mode that shares its weights, which it does not train."""
    copied = set(map(id, _copied(model)))
    with torch.inference_mode(False):
        return copy_model(model, lambda tensor: _shared(tensor, id(tensor) in copied)).eval()


def _copied(model: Any) -> list[Tensor]:
    """The tensors of a model that a copy does not share with it, since its next forward pass may write to them."""
    if isinstance(model, StandIn):
        return []
    unmerged = [layer for _, layer in adapter_layers(model) if layer.disable_adapters and layer.merged]
    rewritten = {id(tensor) for layer in unmerged for tensor in layer.parameters()}

    def is_copied(tensor: Tensor) -> bool:
        if is_traceable_wrapper_subclass(tensor):  # type: ignore[unreachable]  # torchao's: no memory of their own
            return False  # type: ignore[unreachable]
        buffer = not isinstance(tensor, nn.Parameter) and tensor.nbytes <= OWN_BUFFER
        return buffer or id(tensor) in rewritten or tensor.is_inference()  # through which no gradient passes

    return [tensor for tensor in (*model.parameters(), *model.buffers()) if is_copied(tensor)]


def _shared(tensor: Tensor, copied: bool) -> Tensor:
    if is_traceable_wrapper_subclass(tensor):  # type: ignore[unreachable]
        return tensor  # type: ignore[unreachable]
    shared = tensor.detach().clone() if copied else tensor.detach()
    if not isinstance(tensor, nn.Parameter):
        return shared
    result: Tensor = Tensor._make_subclass(type(tensor), shared, False)
    vars(result).update(vars(tensor))  # those of bitsandbytes, which its first forward pass moves elsewhere
    return result


def copy_model(model: Any, convert: Callable[[Tensor], Tensor]) -> Any:
    """A copy of the model with converted weights; hooks and other tensors are shared.

    Hooks are not copied, because a copy would not follow what the user changes in them. One that is a method of a
    module must be, so that it reads the module's copy.
    """
    memo: dict[int, Any] = {id(tensor): tensor for tensor in Version(model).tensors}
    memo |= {id(tensor): convert(tensor) for tensor in (*model.parameters(), *model.buffers())}
    modules = set(model.modules())
    for module in modules:
        own = [value for name, value in vars(module).items() if name == "forward" or not hasattr(nn.Module, name)]
        for function in (type(module).forward, *own):
            _check_function(model, function, modules)
        memo |= {id(value): value for value in own if isinstance(value, torch.ScriptObject)}  # packed weights
        for hooks in (vars(module)[name].values() for name in HOOKS):
            memo |= {id(hook): hook for hook in hooks if not isinstance(getattr(hook, "__self__", None), nn.Module)}
    try:
        return copy.deepcopy(model, memo)
    except Exception as error:
        if str(error).endswith(CHANGED_MEANWHILE):
            raise
        raise ModelError(f"{type(model).__name__} cannot be copied: {error}", part="copy") from error


def _check_function(model: Any, function: Any, modules: set[nn.Module], depth: int = DEPTH) -> None:
    """Refuse to copy a module with a function that calls a module of the model, and not the module's copy."""
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    if not isinstance(function, FunctionType) or not depth:
        return
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # empty
            continue
        owner = getattr(value, "__self__", value)
        if isinstance(owner, nn.Module) and owner in modules:
            raise ModelError(
                f"A module of {type(model).__name__} calls a function that would run the original weights when the "
                'module\'s copy runs. Use a forward hook instead, or dtype="model" for methods of relevance.',
                part="forward",
            )
        _check_function(model, value, modules, depth - 1)


def _when_unchanged(read: Callable[[Any], Result], model: Any) -> Result:
    """What a function reads of a model, tried again if another thread changes the model's attributes meanwhile."""
    for _ in range(ATTEMPTS):
        try:
            return read(model)
        except RuntimeError as error:
            if not str(error).endswith(CHANGED_MEANWHILE):
                raise
    return read(model)


@contextmanager
def _evaluated(model: nn.Module) -> Iterator[None]:
    """Evaluation mode with frozen weights, for a model that has no twin."""
    training = [module for module in model.modules() if module.training]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for module in training:
            module.training = False
        for parameter in trained:
            parameter.requires_grad = False
        yield
    finally:
        for module in training:
            module.training = True
        for parameter in trained:
            parameter.requires_grad = True


@contextmanager
def _training_errors(model: nn.Module) -> Iterator[None]:
    """Say what happened where weights were written between a forward pass and its backward pass."""
    try:
        yield
    except RuntimeError as error:
        if WRITTEN not in str(error):
            raise
        message = (
            f"The weights of {type(model).__name__} were written while it was explained, as training in another thread "
            "does. Explain it again between two steps."
        )
        raise ModelError(message, part="weights") from error


@contextmanager
def precision_errors(model: Any) -> Iterator[None]:
    """Say which model has parts, such as grouped experts, for which torch has no float64."""
    try:
        yield
    except RuntimeError as error:
        if PRECISION.search(str(error)):
            message = (
                f"{type(model).__name__} has parts that run in half or single precision only, and float64 was asked "
                'for. Load it with dtype="float32", and use a method of another family than relevance.'
            )
            raise ModelError(message, part="dtype") from error
        raise


def _renew_in_child() -> None:
    """In a forked process, which has none of the threads that held locks or left a module unfinished."""
    torch.set_num_threads(1)  # OpenMP would wait for its threads, which are not there either
    for twin in list(_TWINS):
        twin.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)
