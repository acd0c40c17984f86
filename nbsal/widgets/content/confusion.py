"""A table of labels by predictions: how many texts each pair has, by which the texts can be filtered."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nbsal.render.headline import Phrase, phrases
from nbsal.render.sheet import Block, Cell, CellTable, Heading
from nbsal.support.validation import plural

WIDEST = 8  # classes up to which all pairs are a table; of more, the mistakes are a list
LISTED = 24  # pairs of a list
ARROW = "\N{RIGHTWARDS ARROW}"
Pair = tuple[str, str]  # label and prediction


@dataclass(frozen=True)
class Confusion:
    """How many texts have each label and prediction; `after` counts them with words hidden, if any are."""

    order: Sequence[str]  # the classes, in the model's order
    counts: Counter[Pair]
    after: Counter[Pair] | None = None

    @classmethod
    def of(
        cls, labels: Sequence[str], predictions: Sequence[str], order: Sequence[str], after: Mapping[int, str]
    ) -> "Confusion":
        """Count texts; `after` holds the predictions that hiding words changes, by the number of the text."""
        changed = [after.get(number, name) for number, name in enumerate(predictions)]
        pairs: Counter[Pair] = Counter(zip(labels, predictions, strict=True))
        return cls(order, pairs, Counter(zip(labels, changed, strict=True)) if after else None)

    @cached_property
    def classes(self) -> list[str]:
        """The classes that are a label or a prediction of any text."""
        there = {name for pair in [*self.counts, *(self.after or ())] for name in pair}
        return [*(name for name in self.order if name in there), *sorted(there - {*self.order})]

    @property
    def is_table(self) -> bool:
        return len(self.classes) <= WIDEST

    def pairs(self) -> list[Pair]:
        """The pairs that are shown: all of few classes, else the most frequent mistakes."""
        if self.is_table:
            return [(label, prediction) for label in self.classes for prediction in self.classes]
        both = self.counts + (self.after or Counter())
        return [pair for pair, _ in both.most_common() if pair[0] != pair[1]][:LISTED]

    def text(self, pair: Pair) -> str:
        """The number of texts of a pair, and that with words hidden if it differs."""
        before, after = self.counts[pair], (self.after or self.counts)[pair]
        return str(before) if before == after else f"{before} {ARROW} {after}"

    def heading(self) -> str:
        """The most frequent mistake, or how many mistakes hiding words leaves."""
        wrong = _wrong(self.counts)
        if self.after is not None:
            return f"{wrong} {ARROW} {plural(_wrong(self.after), 'mistake')} in {plural(self.counts.total(), 'text')}"
        worst = [(pair, count) for pair, count in self.counts.most_common() if pair[0] != pair[1]][:1]
        return next((f"Most frequent mistake: {a} {ARROW} {b}, {n} of {wrong}" for (a, b), n in worst), "No mistake")

    def note(self) -> str:
        """How to read it."""
        if self.is_table:
            return "rows: label \N{MIDDLE DOT} columns: prediction"
        shown, there = len(self.pairs()), len([pair for pair in self.counts if pair[0] != pair[1]])
        most = f", the {shown} most frequent of {there}" if shown < there else ""
        return f"label {ARROW} prediction, mistakes{most}"

    def traits(self) -> dict[str, Any]:
        """What the page draws."""
        cells = [
            {"pair": list(pair), "text": self.text(pair), "wrong": pair[0] != pair[1], "name": self._name(pair)}
            for pair in self.pairs()
        ]
        largest = max((self.counts[pair] for pair in self.pairs()), default=0) or 1
        for cell, pair in zip(cells, self.pairs(), strict=True):
            cell["share"] = round(self.counts[pair] / largest, 3)
        columns = self.classes if self.is_table else []
        return {"heading": self.heading(), "note": self.note(), "columns": columns, "cells": cells}

    def blocks(self) -> list[Block]:
        """The table, or its mistakes where there are many classes."""
        heading = Heading(phrases(self.heading()), self.note())
        if not self.is_table:
            rows = [(f"{label} {ARROW} {name}", [("class", self.text((label, name)))]) for label, name in self.pairs()]
            return [heading, CellTable(rows)]
        cells: list[list[Cell]] = [[label, *(self._cell(label, k) for k in self.classes)] for label in self.classes]
        return [heading, CellTable(cells, ["", *self.classes], right=range(1, len(self.classes) + 1))]

    def _cell(self, label: str, prediction: str) -> list[Phrase]:
        text = self.text((label, prediction))
        return [("class" if label != prediction and text != "0" else "text", text)]

    def _name(self, pair: Pair) -> str:
        """What a reader who cannot see the table hears of a cell."""
        label, prediction = pair
        verb = "rightly" if label == prediction else f"although labelled {label}, wrongly"
        return f"{self.text(pair)} predicted {prediction}, {verb}"


def _wrong(counts: Counter[Pair]) -> int:
    return sum(count for (label, prediction), count in counts.items() if label != prediction)
