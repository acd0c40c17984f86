"""For which lengths of text dropping tokens is exact, as self-tests of a model have found while it stays the same."""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row

SHARE, LEAST = 0.25, 16  # tokens by which a text is made longer for a test


@dataclass
class DroppableLengths:
    """The longest text for which dropping tokens was exact, and the shortest for which it was not.

    `same_positions` says whether our position ids are the model's own.
    """

    longest_exact: int = 0
    shortest_failed: float = float("inf")
    same_positions: bool = True

    def holds(self, length: int) -> bool:
        return length <= self.longest_exact

    def is_tested(self, length: int) -> bool:
        return length <= self.longest_exact or length >= self.shortest_failed

    def add(self, length: int, exact: bool) -> None:
        if exact:
            self.longest_exact = max(self.longest_exact, length)
        else:
            self.shortest_failed = min(self.shortest_failed, length)


_TESTED: WeakKeyDictionary[Subject, tuple[Any, DroppableLengths]] = WeakKeyDictionary()


def tested(subject: Subject, version: Any) -> DroppableLengths:
    """What is known of a subject whose model has that version."""
    if subject not in _TESTED or _TESTED[subject][0] != version:
        _TESTED[subject] = version, DroppableLengths()
    return _TESTED[subject][1]


def longer(row: Row, most: int) -> Row:
    """The row with some of its content repeated, as far as the model reads."""
    count = min(max(int(len(row) * SHARE), LEAST), most - len(row))
    end = row.content[-1] + 1
    repeated = [row.content[number % len(row.content)] for number in range(count)]
    return row.pick([*range(end), *repeated, *range(end, len(row))])
