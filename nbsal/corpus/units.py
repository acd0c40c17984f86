"""The tokens or words of a stored corpus with their scores, as arrays, from which clouds are summed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from nbsal.corpus import arrays
from nbsal.corpus.arrays import Array
from nbsal.corpus.parquet import PAIR, TEXT, TOKEN_COLUMNS
from nbsal.evaluation.clouds import UnitGroup, display_word
from nbsal.model.text.token_text import entities, is_byte_level
from nbsal.model.text.tokens import WORD
from nbsal.support.errors import InputError

TEXTS = 10_000  # whose units are counted at once, since sorting takes several times their memory


def columns_of(method: str) -> list[str]:
    """The columns that the units of a method are read from."""
    return [TEXT, PAIR, "prediction", "target", "probabilities", *TOKEN_COLUMNS, method, f"{method}_scale"]


@dataclass(frozen=True, eq=False)
class Units:
    """The units of many texts in reading order: `texts`, `names` and `scores` have an entry for each unit.

    The first two are numbers: of a text, whose class is in `classes` and whose sum of absolute scores in `totals`; and
    of a name in `vocabulary`, which lists with each name the tokens of its first occurrence.
    """

    unit: str
    classes: Array
    totals: Array
    vocabulary: Sequence[tuple[str, tuple[str, ...]]]
    texts: Array
    names: Array
    scores: Array

    @classmethod
    def read(cls, tables: Iterable[Any], method: str, tokens: Sequence[str], unit: str, most: int) -> "Units":
        """At `most` so many units in tables with `columns_of` the method; `tokens` are the names of all token ids."""
        numbers: dict[str, int] = {}
        vocabulary: list[tuple[str, tuple[str, ...]]] = []
        classes, totals, first, size = [], [], 0, 0
        # Filled in place: the parts of each table, and a copy of all of them, would be most of the memory.
        texts, names, scores = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most)
        for table in tables:
            shard = _Shard(table, method)
            named, owners = shard.words() if unit == "word" else shard.tokens(tokens)
            used = np.flatnonzero(np.bincount(owners, minlength=len(named)))
            codes = np.array([numbers.setdefault(named[i], len(numbers)) for i in used], np.int32)
            new, places = np.unique(codes, return_index=True)
            order = np.argsort(owners, kind="stable")
            begins = np.searchsorted(owners[order], np.arange(len(named) + 1))
            for place in places[new >= len(vocabulary)]:
                i = used[place]
                members = shard.ids[order[begins[i] : begins[i + 1]]]
                vocabulary.append((named[i], tuple(tokens[token] for token in members.tolist())))
            end = size + len(used)
            texts[size:end] = shard.rows[order[begins[used]]] + first
            names[size:end] = codes
            scores[size:end] = np.bincount(owners, shard.scores, len(named))[used]
            classes.append(shard.classes)
            totals.append(shard.totals)
            first, size = first + len(table), end
        joined = np.concatenate(classes), np.concatenate(totals)
        return cls(unit, *joined, vocabulary, texts[:size], names[:size], scores[:size])

    def groups(self, normalise: bool) -> Iterator[UnitGroup]:
        """For each class and name its scores in all texts, and the tokens of its first occurrence."""
        totals = np.where(self.totals > 0, self.totals, 1.0) if normalise else np.ones(len(self.totals))
        labels, classes = np.unique(self.classes.astype(str), return_inverse=True)
        size = len(self.vocabulary)
        # Arrays with an entry for each unit are most of the memory, so their numbers are as short as they may be.
        key: Array = classes.astype(np.int32 if len(labels) * size < 2**31 else np.int64)[self.texts]
        key *= size
        key += self.names
        order = np.argsort(key, kind="stable").astype(np.int32)
        key = key[order]
        for begin, end in pairwise([*_begins(key).tolist(), len(key)]):
            label, number = divmod(int(key[begin]), size)
            places = order[begin:end]
            if not self.vocabulary[number][0]:
                continue  # of markup
            yield (
                str(labels[label]),
                *self.vocabulary[number],
                (self.scores[places] / totals[self.texts[places]]).tolist(),
            )

    def frequencies(self) -> dict[str, Counter[str]]:
        """In how many texts of each class each word, as a cloud displays it, has a positive score."""
        byte_level = self.unit == "token" and is_byte_level(name for name, _ in self.vocabulary)
        numbers: dict[str, int] = {}
        displayed = [numbers.setdefault(display_word(name, byte_level), len(numbers)) for name, _ in self.vocabulary]
        of_name, words = np.array(displayed, np.int32), list(numbers)
        counts = {label: Counter[str]() for label in self.classes}
        starts = np.arange(0, len(self.classes) + TEXTS, TEXTS, dtype=np.int32)
        bounds: list[int] = np.searchsorted(self.texts, starts).tolist()
        for begin, end in pairwise(bounds):
            if begin == end:
                continue
            key = self.texts[begin:end].astype(np.int64) * len(numbers) + of_name[self.names[begin:end]]
            order = np.argsort(key, kind="stable")  # within a text alone, so it is almost in order
            key = key[order]
            begins = _begins(key)
            positive = key[begins[np.add.reduceat(self.scores[begin:end][order], begins) > 0]]
            for label, word in zip(self.classes[positive // len(numbers)], positive % len(numbers), strict=True):
                counts[label][words[word]] += 1
        return counts


def _begins(ordered: Array) -> Array:
    """Where each run of equal values begins."""
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


class _Shard:
    """The content tokens of a table: `rows`, `ids` and `scores` have an entry for each."""

    def __init__(self, table: Any, method: str) -> None:
        self._table = table
        starts, ids = arrays.flatten(table["token_ids"])
        content = ~arrays.flatten(table["special"])[1]
        rows = np.repeat(np.arange(len(table)), np.diff(starts))
        scale = table[f"{method}_scale"].to_numpy().astype(np.float32)
        scores = arrays.flatten(table[method])[1].astype(np.float32) * scale[rows]
        self._content = content
        self.rows, self.ids, self.scores = rows[content], ids[content], scores[content].astype(float)
        self.totals = np.bincount(self.rows, np.abs(self.scores), len(table))
        targets, predictions = (arrays.names(table[name]) for name in ("target", "prediction"))
        self.classes = np.where([name.endswith("]") for name in targets], predictions, targets)
        if (np.diff(arrays.flatten(table["probabilities"])[0]) == 0).any():
            message = "The corpus has values instead of predicted classes: the model is a regression."
            raise InputError(message, argument="saliencies", value=table)

    def tokens(self, names: Sequence[str]) -> tuple[list[str], Array]:
        """The names of the units if each token is one, and which unit each token belongs to."""
        return [names[i] for i in self.ids.tolist()], np.arange(len(self.ids))

    def words(self) -> tuple[list[str], Array]:
        """All words of the texts, and which of them each token belongs to: the one it begins in, or the next."""
        segments, offsets = (arrays.flatten(self._table[name])[1][self._content] for name in ("segments", "starts"))
        pairs = zip(self._table[TEXT].to_pylist(), self._table[PAIR].to_pylist(), strict=True)
        parts = [part for text, pair in pairs for part in (text, pair or "")]
        bases = np.array([0, *accumulate(len(part) + 1 for part in parts)])
        names: list[str] = []
        ends: list[int] = []
        counts = []
        for base, part in zip(bases.tolist(), parts, strict=False):
            before = len(ends)
            markup = entities(part)
            for match in WORD.finditer(part):
                is_markup = any(start <= match.start() < end for start, end in markup)
                names.append("" if is_markup else match.group().lower())
                ends.append(base + match.end())
            counts.append(len(ends) - before)
        part_of = 2 * self.rows + segments
        last = np.cumsum(counts)[part_of] - 1
        owners = np.minimum(np.searchsorted(ends, bases[part_of] + offsets, side="right"), last)
        return names, owners
