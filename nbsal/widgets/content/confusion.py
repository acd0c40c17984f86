"""A table of labels by predictions: how many texts each pair has, by which the texts can be filtered."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nbsal.render import html
from nbsal.support.validation import plural

WIDEST = 8  # classes up to which all pairs are a table; of more, the mistakes are a list
LISTED = 24  # pairs of a list
ARROW = "\N{RIGHTWARDS ARROW}"
Pair = tuple[str, str]  # label and prediction
CELL = "border:0;padding:3px 10px;text-align:right;border-bottom:1px solid rgba(128,128,128,.4)"


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
        there = {name for pairs in (self.counts, self.after or {}) for pair in pairs for name in pair}
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

    def render_html(self) -> str:
        """The table without scripts."""
        title = html.heading_html(self.heading(), self.note())
        if not self.is_table:
            rows = "".join(
                f"<div>{html.escape(f'{label} {ARROW} {prediction}')} <b>{self.text((label, prediction))}</b></div>"
                for label, prediction in self.pairs()
            )
            return f"{title}{rows}"
        head = "".join(f'<th style="{CELL}">{html.escape(name)}</th>' for name in ["", *self.classes])
        body = "".join(
            f'<tr><th style="{CELL}">{html.escape(label)}</th>'
            f"{''.join(self._cell(label, name) for name in self.classes)}</tr>"
            for label in self.classes
        )
        return f'{title}<table style="border-collapse:collapse;font-size:90%"><tr>{head}</tr>{body}</table>'

    def _cell(self, label: str, prediction: str) -> str:
        text = self.text((label, prediction))
        mark = f"<b>{text}</b>" if label != prediction and text != "0" else text
        return f'<td style="{CELL}">{mark}</td>'

    def _name(self, pair: Pair) -> str:
        """What a reader who cannot see the table hears of a cell."""
        label, prediction = pair
        verb = "rightly" if label == prediction else f"although labelled {label}, wrongly"
        return f"{self.text(pair)} predicted {prediction}, {verb}"


def _wrong(counts: Counter[Pair]) -> int:
    return sum(count for (label, prediction), count in counts.items() if label != prediction)
