"""The scores of a reply, of which equal columns are held once: a unit that is hidden has one for all its tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nbsal.support.arrays import Floats


@dataclass(frozen=True, eq=False)
class ScoreMatrix:
    """Scores, [reply token, token of prompt and reply]: `columns[:, places[i]]` are those of token i.

    Without `places`, every token has a column of its own.

    >>> matrix = ScoreMatrix(np.array([[0.0, 0.5]]), np.array([0, 1, 1]))
    >>> matrix.array.tolist(), matrix.total([0]).tolist()
    ([[0.0, 0.5, 0.5]], [0.0, 0.5, 0.5])
    """

    columns: Floats
    places: NDArray[np.signedinteger] | None = None

    @classmethod
    def of_units(cls, unit_scores: Floats, units: Sequence[Sequence[int]], size: int) -> Self:
        """The scores of units, [reply token, unit], divided evenly among the tokens of each; others have 0."""
        places = np.zeros(size, np.int64)
        for at, tokens in enumerate(units, 1):
            places[list(tokens)] = at
        columns = np.zeros((len(unit_scores), len(units) + 1))
        columns[:, 1:] = unit_scores / [len(tokens) for tokens in units]
        return cls(columns, places)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of tokens of the reply, and of prompt and reply."""
        return len(self.columns), self.columns.shape[1] if self.places is None else len(self.places)

    @property
    def array(self) -> Floats:
        """All scores, as one array."""
        return self._spread(self.columns)

    def total(self, tokens: Sequence[int]) -> Floats:
        """The sum of the rows of some tokens of the reply."""
        return self._spread(self.columns[list(tokens)].sum(0))

    def parts(self, parts: Sequence[Sequence[int]]) -> Self:
        """The sums of the rows of each of some parts of the reply, as the rows of another matrix."""
        return replace(self, columns=np.stack([self.columns[list(tokens)].sum(0) for tokens in parts]))

    def sums(self, units: Sequence[Sequence[int]]) -> Floats:
        """The scores summed over the tokens of each unit, [reply token, unit]."""
        sums = np.zeros((len(self.columns), len(units)))
        for at, unit in enumerate(units):
            tokens = np.array(unit, np.int64)
            counts: Any = 1
            if self.places is not None:
                tokens, counts = np.unique(self.places[tokens], return_counts=True)
            sums[:, at] = (self.columns[:, tokens] * counts).sum(1)
        return sums

    def _spread(self, columns: Floats) -> Floats:
        """Columns on the last axis as those of every token."""
        return columns if self.places is None else columns[..., self.places]
