"""Counts of what attention heads attend to (Song et al. 2024), the shares and the masks that follow from them."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.heads.parses import Link
from nbsal.heads.spread import Spread, added
from nbsal.model.head_mask import HeadMask
from nbsal.model.loading.plain_values import from_plain
from nbsal.model.loading.result_file import load_result, save_result
from nbsal.model.loading.saved_files import check_format, read_json
from nbsal.model.text.tokens import Row
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.validation import checked, real_number

FORMAT = 2  # of JSON, which 0.2.0 wrote during its development
NOUN = "head study"
HEADS = "heads"  # what a relation's spread has besides its distances
MIN_CASES = 30  # relations with fewer cases are marked as weak
Counts = NDArray[np.int64]
Shares = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]  # of each head, and their intervals' ends


@dataclass
@checked
class HeadStudy:
    """Counts of what each head attends to most, over parsed sentences; frames and masks are computed from them.

    `cases` counts the dependencies of each relation and `hits`, for every head, those whose words its largest attention
    connects. `places` counts, for every head, where its largest attention is, relative to the attending position.
    `distances` counts the number of words from dependents to their heads. `relation_spreads` and `position_spread` have
    what the intervals of the shares are computed from.

    >>> import nbsal
    >>> parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    >>> counts = nbsal.heads.study(nbsal.load("demo/reviews"), [parse], progress=False)
    >>> (counts + counts).cases["amod"], counts.mask().shape
    (2, (6, 12))
    """

    shape: tuple[int, int]  # blocks, heads
    hits: dict[str, Counts]
    cases: dict[str, int]
    distances: dict[str, Counter[int]]
    places: dict[int, Counts] = field(default_factory=dict)
    rows: int = 0
    skipped: int = 0  # dependencies with a word that no token covers
    relation_spreads: dict[str, Spread] = field(default_factory=dict)
    position_spread: Spread = field(default_factory=Spread)

    @classmethod
    def empty(cls, shape: tuple[int, int], relations: Sequence[str]) -> "HeadStudy":
        """A study without counts."""
        if not relations:
            raise InputError("relations is empty. Pass at least one, such as 'nsubj'.", argument="relations", value=[])
        hits = {name: np.zeros(shape, np.int64) for name in relations}
        return cls(shape, hits, dict.fromkeys(relations, 0), {name: Counter() for name in relations})

    @property
    def relations(self) -> "pandas.DataFrame":
        """alpha_k: the share of cases where a head's largest attention connects the words of a relation.

        `low` and `high` are the ends of its 95 % interval over sentences; `weak` marks relations with few cases.
        """
        parts = [
            self._share_frame(self._alpha(name), {"relation": name}, {"cases": cases})
            for name, cases in self.cases.items()
        ]
        frame = pandas.concat(parts, ignore_index=True)
        return frame.assign(weak=frame["cases"] < MIN_CASES)

    @property
    def positions(self) -> "pandas.DataFrame":
        """alpha_i: the share of positions where a head's largest attention is at that offset.

        `low` and `high` are the ends of its 95 % interval over sentences.
        """
        parts = [self._share_frame(self._place(offset), {"offset": offset}, {}) for offset in sorted(self.places)]
        columns = ["offset", "block", "head", "alpha", "low", "high"]
        return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame(columns=columns)

    @property
    def offsets(self) -> "pandas.DataFrame":
        """lambda_k: the share of cases where the head of a relation is that many words after its dependent.

        `low` and `high` are the ends of its 95 % interval over sentences.
        """
        rows = []
        for name, counts in self.distances.items():
            cases, spread = self.cases[name], self.relation_spreads.get(name, Spread())
            for offset, count in sorted(counts.items()):
                ends = spread.interval(str(offset), count, cases)
                rows.append((name, offset, count, count / max(cases, 1), *map(float, ends)))
        return pandas.DataFrame(rows, columns=["relation", "offset", "count", "share", "low", "high"])

    def _alpha(self, relation: str) -> Shares:
        """The share of cases of a relation that each head connects, with its interval."""
        hits, cases = self.hits[relation], self.cases[relation]
        return hits / max(cases, 1), *self.relation_spreads.get(relation, Spread()).interval(HEADS, hits, cases)

    def _place(self, offset: int) -> Shares:
        """The share of positions where each head's largest attention is at that offset, with its interval."""
        counts = self.places[offset]
        return counts / max(self.rows, 1), *self.position_spread.interval(str(offset), counts, self.rows)

    def _share_frame(self, shares: Shares, before: dict[str, Any], after: dict[str, Any]) -> "pandas.DataFrame":
        """One row for each head with its share and interval."""
        block, head = (indices.ravel() for indices in np.indices(self.shape))
        alpha, low, high = (part.ravel() for part in shares)
        columns = before | {"block": block, "head": head, "alpha": alpha, "low": low, "high": high} | after
        return pandas.DataFrame(columns)

    def mask(self, synt: float = 0.1, pos: float = 0.8) -> HeadMask:
        """The heads that follow a relation or a position.

        A head follows a relation if its alpha exceeds the share of the relation's most common distance by more than
        `synt`, and a position if its alpha for some offset is more than `pos`. The mask's `provenance` has these
        thresholds, and how many of the heads it selects would not be selected by the lower ends of their intervals
        (`uncertain_selected`), and how many of those it leaves out would be by the upper ends (`uncertain_left_out`).
        """
        synt, pos = real_number(synt, "synt"), real_number(pos, "pos")
        alphas = {name: self._alpha(name) for name in self.hits}
        places = [self._place(offset) for offset in self.places] or [(np.zeros(self.shape),) * 3]
        strongest = [np.max(part, axis=0) for part in zip(*places, strict=True)]
        masks = []
        for at in range(3):  # by the shares, and by the lower and the upper ends of their intervals
            relations = {name: shares[at] > self._threshold(name) + synt for name, shares in alphas.items()}
            masks.append(HeadMask(strongest[at] > pos, relations))
        mask, lower, upper = masks
        provenance = {
            "synt": synt,
            "pos": pos,
            "uncertain_selected": int((mask.selected & ~lower.selected).sum()),
            "uncertain_left_out": int((~mask.selected & upper.selected).sum()),
        }
        return replace(mask, provenance=provenance)

    def _threshold(self, relation: str) -> float:
        """The share of a relation's most common distance, which its head must exceed."""
        return max(self.distances[relation].values(), default=0) / max(self.cases[relation], 1)

    def __add__(self, other: "HeadStudy") -> "HeadStudy":
        """The study of the sentences of both."""
        if not isinstance(other, HeadStudy) or self.shape != other.shape or set(self.hits) != set(other.hits):
            message = "Only studies of the same model and the same relations can be added."
            raise InputError(message, argument="other", value=other)
        return HeadStudy(
            self.shape,
            added(self.hits, other.hits),
            added(self.cases, other.cases),
            added(self.distances, other.distances, Counter()),
            added(self.places, other.places),
            self.rows + other.rows,
            self.skipped + other.skipped,
            added(self.relation_spreads, other.relation_spreads, Spread()),
            self.position_spread + other.position_spread,
        )

    def save(self, path: str | Path) -> None:
        """Save the counts in a file of their own format."""
        save_result(path, HeadStudy, NOUN, self, HeadStudy._check)

    @classmethod
    def load(cls, path: str | Path) -> "HeadStudy":
        """Load a study that `save` wrote."""
        return load_result(path, HeadStudy, NOUN, _load_json, HeadStudy._check)

    def __repr__(self) -> str:
        return f"HeadStudy({', '.join(f'{name} {n}' for name, n in self.cases.items())}; {self.rows} positions)"

    def count(self, row: Row, attention: NDArray[np.floating[Any]], links: Iterable[Link], special: bool) -> None:
        """Count one sentence; `attention` is [block, head, position, position] without padding."""
        columns = list(range(len(row))) if special else list(row.content)
        exclusion = np.full(len(row), -np.inf)
        exclusion[columns] = 0
        self._count_links((attention + exclusion).argmax(-1), links)  # [block, head, position]
        if len(columns) < 2:
            return
        if not special:
            attention = attention.copy()
            attention[..., range(len(row)), range(len(row))] = -np.inf
        largest = (attention + exclusion).argmax(-1)
        offsets = largest[..., columns] - columns
        counts = {int(offset): (offsets == offset).sum(-1) for offset in np.unique(offsets)}
        for offset, heads in counts.items():
            self.places[offset] = self.places.get(offset, 0) + heads
        self.rows += len(columns)
        self.position_spread.add(len(columns), {str(offset): heads for offset, heads in counts.items()})

    def _check(self) -> None:
        by_relation = (self.hits, self.cases, self.distances)
        spreads = [self.position_spread, *self.relation_spreads.values()]
        totals = [*self.cases.values(), *chain.from_iterable(counts.values() for counts in self.distances.values())]
        totals += [size for spread in spreads for size in (spread.sentences, spread.case_squares)]
        arrays = (*self.hits.values(), *self.places.values())
        shapes = {counts.shape for counts in arrays}
        names = {frozenset(counts) for counts in by_relation}
        if len(names) > 1 or not {*self.relation_spreads} <= {*self.hits} or shapes != {self.shape}:
            raise ValueError("counts of different relations or heads")
        are_counts = all(
            type(count) is int and 0 <= count <= sys.maxsize for count in (self.rows, self.skipped, *totals)
        )
        if not are_counts or any((counts < 0).any() for counts in arrays):
            raise ValueError("counts that are not whole numbers")
        if not all(type(size) is int for size in self.shape):
            raise ValueError("a shape that is not whole numbers")
        self.position_spread.check_shapes(self.shape, self.shape)
        for spread in self.relation_spreads.values():
            spread.check_shapes(self.shape, (), HEADS)

    def _count_links(self, largest: NDArray[np.int64], links: Iterable[Link]) -> None:
        by_relation: dict[str, list[Link]] = {}
        for link in links:
            if link.relation in self.hits and link.origin is None:
                self.skipped += 1
            elif link.relation in self.hits:
                by_relation.setdefault(link.relation, []).append(link)
        for name, related in by_relation.items():
            hits = np.sum([np.isin(largest[..., link.origin], link.goal) for link in related], axis=0)
            distances = Counter(link.distance for link in related)
            self.hits[name] += hits
            self.cases[name] += len(related)
            self.distances[name] += distances
            counts = {HEADS: hits} | {str(distance): count for distance, count in distances.items()}
            self.relation_spreads.setdefault(name, Spread()).add(len(related), counts)


def _load_json(path: str | Path) -> HeadStudy:
    """Load what 0.2.0 wrote during its development."""
    content = read_json(path)
    check_format(path, content.pop("nbsal-head-study"), FORMAT)
    study: HeadStudy = from_plain(HeadStudy, content)
    return study
