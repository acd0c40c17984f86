"""What a method is, and the register that every family enters its methods into."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from nbsal.errors import UnknownName
from nbsal.model.subject import Subject
from nbsal.trace import Trace
from nbsal.validation import whole_number


class Method(ABC):
    """Turns a Trace into one score a position."""

    name: ClassVar[str]
    family: ClassVar[str]
    needs: ClassVar[frozenset[str]]
    paper: ClassVar[str]
    cost: ClassVar[str]  # how often the model is run
    promise: ClassVar[str]  # what its scores can be relied on for
    per_end: ClassVar[bool] = False  # both ends of a span are explained each alone, and the scores added

    def subject_for(self, subject: Subject) -> Subject:
        """The subject as it reads it: methods with one reader share a trace."""
        return subject

    def resolve(self, subject: Subject) -> Self:
        """The same method with every default filled in for that subject, or the reason why it cannot be."""
        return self

    def layers(self, depth: int) -> set[int]:
        """The hidden layers it reads."""
        return set()

    @property
    def pairwise(self) -> bool:
        """Whether it reads something of every pair of positions, which takes the square of a text's length."""
        return any(need.startswith("attention") or need == "relevance" for need in self.needs)

    @abstractmethod
    def scores(self, trace: Trace) -> Tensor:
        """[batch, position]."""

    def total(self, trace: Trace) -> Tensor:
        """Scores of the whole target, [batch, position]; worked out once for a trace."""

        def summed() -> tuple[object, Tensor]:
            parts = trace.per_end_traces(self.needs) if self.per_end else [trace]
            return self, torch.stack([self.scores(part) for part in parts]).sum(0)

        # Some methods have no hash; one that is kept beside its scores shares its id with no other.
        return trace.cached(("total", id(self)), summed)[1]

    def tie_breaker(self, trace: Trace) -> Tensor:
        """What orders positions of equal score, [batch, position]."""
        return self.total(trace)

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        """What the provenance of each text's scores says beside the settings."""
        return [{} for _ in trace.encoded]

    def parameters(self) -> dict[str, Any]:
        """Its settings, for the provenance of a result: what numpy counts with as plain numbers."""
        settings: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}


@dataclass(frozen=True)
class LayerMethod(Method):
    """A method that scores the features of one hidden layer and then sums them up a position."""

    layer: int | None = 0  # None: the subject's default layer

    def resolve(self, subject: Subject) -> Self:
        layer = subject.default_layer if self.layer is None else whole_number(self.layer, "layer")
        if layer not in range(subject.depth + 1):
            raise UnknownName("layer", layer, range(subject.depth + 1))
        return replace(self, layer=layer)

    def layers(self, depth: int) -> set[int]:
        return {self.chosen}

    @property
    def chosen(self) -> int:
        """The layer, once resolved."""
        assert self.layer is not None, "resolve the method first"
        return self.layer

    @abstractmethod
    def features(self, trace: Trace) -> Tensor:
        """[batch, position, width]."""

    @abstractmethod
    def aggregate(self, features: Tensor) -> Tensor:
        """[batch, position, width] -> [batch, position]."""

    def scores(self, trace: Trace) -> Tensor:
        return self.aggregate(self.features(trace))

    def tie_breaker(self, trace: Trace) -> Tensor:
        return self.features(trace).sum(-1)

    def every_layer_scores(self, trace: Trace, layers: Sequence[int]) -> Tensor:
        """Scores of several layers from one trace, [layer, batch, position]."""
        return torch.stack([replace(self, layer=layer).scores(trace) for layer in layers])


REGISTER: dict[str, Callable[..., Method]] = {}
M = TypeVar("M", bound=type[Method])


def register(
    name: str, *, family: str, needs: set[str], paper: str, cost: str | None = None, promise: str | None = None
) -> Callable[[M], M]:
    """Enter a method class into the catalogue under its name.

    `cost` says how often the model is run for a text, `promise` what the scores can be relied on for; a variant that
    names neither has those of the method it varies.
    """

    def enter(method: M) -> M:
        method.name, method.family, method.needs, method.paper = name, family, frozenset(needs), paper
        method.cost, method.promise = cost or method.cost, promise or method.promise
        REGISTER[name] = method
        return method

    return enter
