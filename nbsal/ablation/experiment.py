"""An experiment on a text: its units are hidden, some at a time, and what the model then says is read."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from nbsal.ablation import tables
from nbsal.ablation.engine import Ablation, Text
from nbsal.support.arrays import Flags
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter


@dataclass(frozen=True, eq=False)
class Experiment:
    """A text whose units, each of some tokens, can be left out; tokens in no unit always stay.

    >>> import nbsal
    >>> from nbsal.ablation.decision import DecisionText
    >>> subject = nbsal.load("demo/reviews")
    >>> (row,) = subject.encode("A dull joy.")
    >>> experiment = Experiment(Ablation(subject), DecisionText(subject, row), [word.tokens for word in row.words])
    >>> [subject.labels[number] for number in experiment.without([], [1]).argmax(-1).tolist()]
    ['negative', 'positive']
    """

    ablation: Ablation
    text: Text
    units: Sequence[Sequence[int]]

    def values(self, subsets: Any, meter: Meter | None = None) -> Tensor:
        """What is read for some subsets of the units, [subset, ...]; `subsets` is true where a unit stays."""
        return self.ablation.values([self.text], [self.tokens(subsets)], meter)[0]

    def without(self, *sets: Iterable[int], meter: Meter | None = None) -> Tensor:
        """What is read without the units of each set, [set, ...]."""
        return self.values(tables.without(len(self.units), *sets), meter)

    def only(self, *sets: Iterable[int], meter: Meter | None = None) -> Tensor:
        """What is read when only the units of each set are left, [set, ...]."""
        return self.values(tables.only(len(self.units), *sets), meter)

    def in_order(
        self,
        orders: Sequence[tables.Order],
        sizes: Sequence[int],
        games: Collection[str] = ("hiding",),
        meter: Meter | None = None,
    ) -> dict[str, Tensor]:
        """What is read after hiding, or revealing, the first units of some orders: [order, size, ...] by game."""
        played = np.stack([np.stack([steps(order, sizes, game) for game in games]) for order in orders])
        values = self.values(played.reshape(-1, len(self.units)), meter)
        values = values.reshape(*played.shape[:-1], *values.shape[1:])
        return {game: values[:, number] for number, game in enumerate(games)}

    def tokens(self, subsets: Any) -> Flags:
        """Subsets of units as subsets of tokens, [subset, token]."""
        chosen = np.asarray(subsets, dtype=bool)
        if chosen.ndim != 2 or chosen.shape[1] != len(self.units):
            message = f"Subsets must have one entry for each unit, [subset, {len(self.units)}], not {chosen.shape}."
            raise InputError(message, argument="subsets", value=subsets)
        table = np.ones((len(chosen), len(self.text.row)), dtype=bool)
        for column, places in zip(chosen.T, self.units, strict=True):
            table[:, list(places)] = column[:, None]
        return table


def steps(order: tables.Order, sizes: Sequence[int], game: str) -> Flags:
    """The units that stay after hiding, or revealing, the first ones of an order, [size, unit]."""
    return tables.without_first(order, sizes) if game == "hiding" else tables.only_first(order, sizes)


def run(experiments: Sequence[Experiment], subsets: Sequence[Any], meter: Meter | None = None) -> list[Tensor]:
    """What is read in several experiments, for some subsets of the units of each: they share batches."""
    texts = [each.text for each in experiments]
    chosen = [each.tokens(some) for each, some in zip(experiments, subsets, strict=True)]
    return experiments[0].ablation.values(texts, chosen, meter) if experiments else []
