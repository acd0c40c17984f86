"""What a model's output depends on, as a value that differs after a change; results that are cached depend on it.

Covered, in less than a millisecond for six layers: the modules with their classes, hooks and plain attributes, numbers
and names in the configuration, and for every weight which tensor it is, where it lies, how often it was written, and
some of its numbers. Comparing all numbers would take as long as a forward pass. The sample is there for writes through
`.data` or numpy, which PyTorch does not count: it has every number of a small weight and `SAMPLE` of a large one, so
that a training step, a merged adapter or a pruned head is seen, and a change of a few numbers of a large weight is not.
Nor is what a hook's function keeps to itself.
"""

import copy
import operator
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

SAMPLE = 64  # numbers of a large weight
LARGE = 1000  # entries; a container of more is an object like any other
DEPTH = 4  # how deep containers and settings may be nested
_PLAIN = frozenset({Tensor, nn.Parameter})  # quantised weights of other libraries may lack the operations of a sample
_CONTAINERS = frozenset({dict, OrderedDict, list, tuple, set})
_VALUES = frozenset({type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size})


class Version:
    """The values and objects that a model's output depends on; equal if nothing of it has changed."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, model: nn.Module | None = None, tensors: Iterable[Tensor] = ()) -> None:
        """The version of a model or of tensors, without what they hold."""
        self.values: list[Any] = []  # compared by value
        self.objects: list[Any] = []  # compared by identity, and held, so that none takes the place of another
        self.numbers: list[bytes] = []
        self.tensors = [*tensors]
        self._visited: set[int] = set()
        if model is not None:
            self._add_model(model)
        self.objects += self.tensors
        self.values += map(Tensor.data_ptr, self.tensors)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Version)
            and len(self.objects) == len(other.objects)
            and all(map(operator.is_, self.objects, other.objects))
            and self.values == other.values
            and self.numbers == other.numbers
        )

    def _add_model(self, model: nn.Module) -> None:
        """Add all modules of a model with their attributes, one after the other."""
        modules = [model]
        for module in modules:  # grows while it is read
            attributes = dict(vars(module))  # another thread may add some meanwhile
            self.objects += module, type(module)
            self.values.append(tuple(attributes))
            for name, value in attributes.items():
                kind = type(value)
                if kind in _CONTAINERS and not value:  # as most are
                    continue
                if kind in _VALUES:
                    if name != "training":  # always off in an explanation
                        self.values.append(value)
                elif name == "_modules":
                    self.values.append(tuple(value))
                    self.objects += value.values()
                    modules += filter(self._is_new, value.values())
                elif name in ("_parameters", "_buffers"):
                    self.values.append(tuple(value))
                    for tensor in value.values():
                        self._add(tensor, 0)
                else:
                    self._add(value, DEPTH)

    def with_numbers(self) -> "Version":
        """The same, with how often the tensors were written, and some of their numbers."""
        result = copy.copy(self)
        result.values = [*self.values]
        samples: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for tensor in self.tensors:
            result.values.append(0 if tensor.is_inference() else tensor._version)
            if not tensor.is_meta and (type(tensor) in _PLAIN or type(tensor.data) is Tensor):
                samples.setdefault((tensor.device, tensor.dtype), []).append(sample(tensor))
        # As bytes, since NaN equals nothing.
        result.numbers = [torch.cat(parts).cpu().view(torch.uint8).numpy().tobytes() for parts in samples.values()]
        return result

    def _add(self, value: Any, depth: int) -> None:
        """Add an attribute, or an entry of one."""
        kind = type(value)
        if kind in _VALUES:
            self.values.append(value)
        elif isinstance(value, Tensor):
            self.tensors.append(value)
        elif isinstance(value, dict) and len(value) <= LARGE and depth:
            self.values.append(len(value))
            for key, entry in value.items():
                self._add(key, depth - 1)
                self._add(entry, depth - 1)
        elif isinstance(value, list | tuple) and len(value) <= LARGE and depth:
            self.values.append(len(value))
            for entry in value:
                self._add(entry, depth - 1)
        elif isinstance(value, set | frozenset) and len(value) <= LARGE:
            self.values.append(frozenset(value))
        else:
            self.objects.append(value)
            if depth and hasattr(value, "__dict__") and not callable(value) and self._is_new(value):
                self._add(vars(value), depth - 1)

    def _is_new(self, value: Any) -> bool:
        """True if the value is there, and for the first time."""
        if value is None or id(value) in self._visited:
            return False
        self._visited.add(id(value))
        return True


def tensors_version(tensors: Iterable[Tensor]) -> Version:
    """The version of some tensors."""
    return Version(tensors=tensors).with_numbers()


def sample(tensor: Tensor) -> Tensor:
    """Some numbers of a weight, evenly spread: every number of a small one."""
    tensor, size = tensor.detach(), tensor.numel()
    step = 1 if size <= SAMPLE else size // SAMPLE | 1  # odd: not a multiple of the width of a matrix
    if tensor.is_contiguous():
        return tensor.as_strided((-(-size // step),), (step,))
    return tensor.reshape(-1)[::step]
