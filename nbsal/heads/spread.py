"""Intervals of shares whose cases come in sentences.

Cases of one sentence are alike: a head that attends to the next token does so all along. So a sentence counts as a
whole, however many cases it has, as if sentences were resampled. Sums over sentences are enough for that, so studies
can be added up without keeping what each sentence had.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nbsal.support.intervals import Interval, t_quantile, wilson_interval

Counts = NDArray[np.int64]


def added(first: Mapping[Any, Any], second: Mapping[Any, Any], start: Any = 0) -> dict[Any, Any]:
    """The sums of two mappings by name; a name that one of them lacks has the value `start` there."""
    return {name: first.get(name, start) + second.get(name, start) for name in {**first, **second}}


@dataclass(eq=False)
class Spread:
    """Sums over sentences of squares of the number of cases, of squares of hits, and of hits times cases."""

    sentences: int = 0
    case_squares: int = 0
    squares: dict[str, Counts] = field(default_factory=dict)
    products: dict[str, Counts] = field(default_factory=dict)

    def add(self, cases: int, hits: Mapping[str, ArrayLike]) -> None:
        """Count a sentence; hits of a name that it lacks are 0."""
        self.sentences += 1
        self.case_squares += cases**2
        for name, values in hits.items():
            counts = np.asarray(values, np.int64)
            self.squares[name] = self.squares.get(name, 0) + counts**2
            self.products[name] = self.products.get(name, 0) + counts * cases

    def interval(self, name: str, hits: ArrayLike, cases: int) -> Interval:
        """The 95 % interval of hits / cases; NaN for fewer than two sentences.

        A Wilson interval with the number of independent cases that would spread as much as the sentences do, at most
        the number of cases. If all or no cases are hits, each sentence is one independent case.
        """
        share = np.asarray(hits, np.float64) / max(cases, 1)
        if self.sentences < 2 or name not in self.squares:
            empty = np.full_like(share, np.nan)
            return empty, empty
        residuals = self.squares[name] - 2 * share * self.products[name] + share**2 * self.case_squares
        variance = np.maximum(residuals, 0) * self.sentences / (self.sentences - 1) / cases**2
        with np.errstate(invalid="ignore", divide="ignore"):
            independent = np.where((share > 0) & (share < 1), share * (1 - share) / variance, self.sentences)
        return wilson_interval(share, np.minimum(independent, cases), t_quantile(self.sentences - 1))

    def __add__(self, other: "Spread") -> "Spread":
        """The sums over the sentences of both."""
        return Spread(
            self.sentences + other.sentences,
            self.case_squares + other.case_squares,
            added(self.squares, other.squares),
            added(self.products, other.products),
        )

    def check_shapes(self, first: tuple[int, ...], others: tuple[int, ...], name: str | None = None) -> None:
        """Raise ValueError unless the arrays have one shape, or the array of that name has the first."""
        for arrays in (self.squares, self.products):
            if any(counts.shape != (first if key == name else others) for key, counts in arrays.items()):
                raise ValueError("sums of different heads")
        if {*self.squares} != {*self.products}:
            raise ValueError("sums of different shares")
