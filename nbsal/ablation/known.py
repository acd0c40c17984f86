"""What tests of a model have found about leaving tokens out, once for as long as the model stays the same."""

import inspect
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from nbsal.model.running import architecture
from nbsal.model.subject import Subject


@dataclass
class Lengths:
    """The lengths of texts for which something is exact: what holds for one holds for all shorter ones."""

    longest_exact: int = 0
    shortest_failed: float = float("inf")

    def holds(self, length: int) -> bool:
        return length <= self.longest_exact

    def is_tested(self, length: int) -> bool:
        return length <= self.longest_exact or length >= self.shortest_failed

    def add(self, length: int, exact: bool) -> None:
        if exact:
            self.longest_exact = max(self.longest_exact, length)
        else:
            self.shortest_failed = min(self.shortest_failed, length)


@dataclass
class Known:
    """Whether a model reads our position ids as its own, and for which lengths leaving out, and reuse, are exact."""

    numbered: bool  # whether it is given the positions of tokens
    first_position: int
    positions: Lengths = field(default_factory=Lengths)
    leaving_out: Lengths = field(default_factory=Lengths)
    reuse: Lengths = field(default_factory=Lengths)

    def add_positions(self, length: int, same: bool) -> None:
        """Whether our position ids are the model's; if not, it is given none, and what was found with them is void."""
        self.positions.add(length, same)
        if not same:
            self.numbered, self.leaving_out, self.reuse = False, Lengths(), Lengths()


_KNOWN: WeakKeyDictionary[nn.Module, tuple[Any, Known]] = WeakKeyDictionary()


def known_of(subject: Subject) -> Known:
    """What is known of a subject's model in its present version: weights may decide how it measures distances."""
    model, version = subject.twin, subject.model_version
    if model not in _KNOWN or _KNOWN[model][0] != version:
        numbered = "position_ids" in inspect.signature(model.forward).parameters
        _KNOWN[model] = version, Known(numbered, architecture.first_position(model))
    return _KNOWN[model][1]
