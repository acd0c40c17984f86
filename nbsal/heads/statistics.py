"""The head study (Song et al. 2024): heads that look from a word to its governor, and heads that look at one place."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbsal import trace
from nbsal.errors import InputError, UnknownName
from nbsal.heads import published
from nbsal.heads.parses import Link, Parse, links, read_parses
from nbsal.model import batching
from nbsal.model.head_mask import HeadMask
from nbsal.model.subject import Subject
from nbsal.model.tokens import Encoded, Row
from nbsal.progress import Meter, Progress
from nbsal.validation import loading, positive_number, real_number

if TYPE_CHECKING:
    import pandas

RELATIONS = ("nsubj", "obj", "amod", "advmod")
DIRECTIONS = ("head", "dependent", "both")
FEW = 30  # a relation seen less often says little
Counts = NDArray[np.int64]


@dataclass
class HeadStudy:
    """Counts that grow with every sentence; frames and masks are read off them.

    `hits` and `cases` are by relation; `places` counts, for every head, where its largest attention lies relative to
    the position that attends; `distances` counts how many words after the dependent its head stands.

    >>> import nbsal
    >>> parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    >>> found = study(nbsal.load("demo/reviews"), [parse], progress=False)
    >>> (found + found).cases["amod"], found.mask().shape
    (2, (6, 12))
    """

    shape: tuple[int, int]  # blocks, heads
    hits: dict[str, Counts]
    cases: dict[str, int]
    distances: dict[str, Counter[int]]
    places: dict[int, Counts] = field(default_factory=dict)
    rows: int = 0
    skipped: int = 0  # dependencies with a word that no token covers

    @classmethod
    def empty(cls, shape: tuple[int, int], relations: Sequence[str]) -> "HeadStudy":
        """Nothing counted yet."""
        if not relations:
            raise InputError("There is no relation to study: name at least one, such as 'nsubj'.")
        if not all(isinstance(name, str) for name in relations):
            raise InputError(f"relations is a list of names such as 'nsubj', not {relations!r:.60}.")
        nothing = {name: np.zeros(shape, np.int64) for name in relations}
        return cls(shape, nothing, dict.fromkeys(relations, 0), {name: Counter() for name in relations})

    @property
    def relations(self) -> "pandas.DataFrame":
        """alpha_k: how often each head's largest attention joins words of a relation; `weak` where cases are few."""
        import pandas

        rows = [
            (name, block, head, self.hits[name][block, head] / max(self.cases[name], 1), self.cases[name])
            for name in self.hits
            for block, head in np.ndindex(*self.shape)
        ]
        frame = pandas.DataFrame(rows, columns=["relation", "block", "head", "alpha", "cases"])
        return frame.assign(weak=frame["cases"] < FEW)

    @property
    def positions(self) -> "pandas.DataFrame":
        """alpha_i: how often each head's largest attention lies at each relative position."""
        import pandas

        rows = [
            (offset, block, head, self.places[offset][block, head] / max(self.rows, 1))
            for offset in sorted(self.places)
            for block, head in np.ndindex(*self.shape)
        ]
        return pandas.DataFrame(rows, columns=["offset", "block", "head", "alpha"])

    @property
    def offsets(self) -> "pandas.DataFrame":
        """lambda_k: how often a relation's head stands so many words after its dependent."""
        import pandas

        rows = [
            (name, offset, count, count / max(self.cases[name], 1))
            for name, found in self.distances.items()
            for offset, count in sorted(found.items())
        ]
        return pandas.DataFrame(rows, columns=["relation", "offset", "count", "share"])

    def mask(self, synt: float = 0.1, pos: float = 0.8) -> HeadMask:
        """Heads that beat guessing a relation's commonest distance by `synt`, or look at one place beyond `pos`."""
        synt, pos = real_number(synt, "synt"), real_number(pos, "pos")
        relations = {}
        for name, hits in self.hits.items():
            commonest = max(self.distances[name].values(), default=0)
            alpha = hits / max(self.cases[name], 1)
            relations[name] = alpha > commonest / max(self.cases[name], 1) + synt
        shares = [counts / max(self.rows, 1) for counts in self.places.values()]
        positional = np.max(shares, axis=0) > pos if shares else np.zeros(self.shape, bool)
        return HeadMask(positional, relations)

    def __add__(self, other: "HeadStudy") -> "HeadStudy":
        """Both studies' sentences together."""
        if self.shape != other.shape or set(self.hits) != set(other.hits):
            raise InputError("Only studies of one model and the same relations can be added.")
        nothing = np.zeros(self.shape, np.int64)
        return HeadStudy(
            self.shape,
            {name: self.hits[name] + other.hits[name] for name in self.hits},
            {name: self.cases[name] + other.cases[name] for name in self.cases},
            {name: self.distances[name] + other.distances[name] for name in self.distances},
            {
                offset: self.places.get(offset, nothing) + other.places.get(offset, nothing)
                for offset in {*self.places, *other.places}
            },
            self.rows + other.rows,
            self.skipped + other.skipped,
        )

    def save(self, path: str | Path) -> None:
        """Write the counts as JSON."""
        content = {
            "nbsal-head-study": 1,
            "shape": self.shape,
            "hits": {name: counts.tolist() for name, counts in self.hits.items()},
            "cases": self.cases,
            "distances": {name: dict(found) for name, found in self.distances.items()},
            "places": {offset: counts.tolist() for offset, counts in self.places.items()},
            "rows": self.rows,
            "skipped": self.skipped,
        }
        Path(path).write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "HeadStudy":
        """Read what `save` wrote."""
        with loading(path, "saved head study"):
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content.pop("nbsal-head-study") != 1:
                raise InputError(f"{path} holds a head study in a format this nbsal does not read.")
            content["shape"] = tuple(content["shape"])
            content["hits"] = {name: np.array(counts, np.int64) for name, counts in content["hits"].items()}
            content["places"] = {int(o): np.array(counts, np.int64) for o, counts in content["places"].items()}
            content["distances"] = {
                name: Counter({int(o): n for o, n in found.items()}) for name, found in content["distances"].items()
            }
            found = cls(**content)
            found._check()
            return found

    def __repr__(self) -> str:
        return f"HeadStudy({', '.join(f'{name} {n}' for name, n in self.cases.items())}; {self.rows} positions)"

    def count(self, row: Row, attention: NDArray[np.floating[Any]], links: Iterable[Link], special: bool) -> None:
        """Add one sentence: `attention` is [block, head, position, position] of its own tokens."""
        columns = list(range(len(row))) if special else list(row.content)
        hidden = np.full(len(row), -np.inf)
        hidden[columns] = 0
        self._count_links((attention + hidden).argmax(-1), links)  # [block, head, position]
        if len(columns) < 2:
            return
        if not special:
            attention = attention.copy()
            attention[..., range(len(row)), range(len(row))] = -np.inf
        largest = (attention + hidden).argmax(-1)
        for i in columns:
            for offset in np.unique(found := largest[..., i] - i):
                self.places.setdefault(int(offset), np.zeros(self.shape, np.int64))[...] += found == offset
        self.rows += len(columns)

    def _check(self) -> None:
        """Refuse counts that do not belong together."""
        named = (self.hits, self.cases, self.distances)
        totals = (*self.cases.values(), *chain.from_iterable(found.values() for found in self.distances.values()))
        shapes = {counts.shape for counts in (*self.hits.values(), *self.places.values())}
        if len({frozenset(one) for one in named}) > 1 or shapes != {self.shape}:
            raise ValueError("counts of different relations or heads")
        if not all(type(count) is int and count >= 0 for count in (self.rows, self.skipped, *totals)):
            raise ValueError("counts that are no whole numbers")

    def _count_links(self, largest: NDArray[np.int64], links: Iterable[Link]) -> None:
        for link in links:
            if link.relation not in self.hits:
                continue
            if link.origin is None:
                self.skipped += 1
                continue
            self.hits[link.relation] += np.isin(largest[..., link.origin], link.goal)
            self.cases[link.relation] += 1
            self.distances[link.relation][link.distance] += 1


def study(
    subject: Subject,
    parses: Any,
    *,
    relations: Sequence[str] = RELATIONS,
    direction: str = "head",
    special: bool = False,
    variant: str | None = None,
    batch_size: int = 32,
    progress: Progress = True,
    cancel: Event | None = None,
) -> HeadStudy:
    """What every head of a model looks at, over parsed sentences.

    `parses` is a CoNLL-U path or text, a list of Parse, or spaCy docs. `direction` says whose attention is read: that
    of the dependent on its "head", of the head on its "dependent", or "both". `special` lets special tokens, and a
    position itself, be the largest. `variant="published"` counts as the authors' code did.

    >>> import nbsal
    >>> parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    >>> study(nbsal.load("demo/reviews"), [parse], progress=False).cases["amod"]
    1
    """
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    if variant not in (None, "published"):
        raise UnknownName("variant", variant, (None, "published"))
    if not isinstance(subject, Subject):
        raise InputError(f"Study a subject, nbsal.load(model), not {type(subject).__name__}.")
    one = isinstance(relations, str) or not isinstance(relations, Iterable)
    names: list[Any] = [relations] if one else list(relations)
    sentences = sorted(read_parses(parses), key=lambda parse: len(parse.text))
    found = HeadStudy.empty((subject.depth, subject.heads), names)
    size = 1 if subject.unbatchable else positive_number(batch_size, "batch_size")

    def tallied(batch: Sequence[Parse]) -> HeadStudy:
        own = HeadStudy.empty(found.shape, names)
        encoded = subject.encode([parse.text for parse in batch])
        if variant:
            encoded = Encoded([published.shown(subject, row) for row in encoded], encoded.pad_id)
        seen = trace.record(subject, encoded, needs={"attention"}).attention
        for i, (row, parse) in enumerate(zip(encoded, batch, strict=True)):
            read = [seen[b][i, :, : len(row), : len(row)].cpu() for b in range(subject.depth)]
            attention = np.stack([one.to(torch.promote_types(one.dtype, torch.float32)).numpy() for one in read])
            linked = published.links(subject, row, parse) if variant else links(row, parse, direction)
            own.count(row, attention, linked, special or bool(variant))
        return own

    with Meter(len(sentences), progress, cancel) as meter:
        for start in range(0, len(sentences), size):
            meter.check()
            batch = sentences[start : start + size]
            found = sum(batching.run_in_halves(batch, tallied), found)
            meter.step(len(batch))
    return found


def discover(subject: Subject, parses: Any, synt: float = 0.1, pos: float = 0.8, **options: Any) -> HeadMask:
    """Study and mask in one: the heads that follow syntax or position.

    >>> import nbsal
    >>> parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    >>> discover(nbsal.load("demo/reviews"), [parse], progress=False).shape
    (6, 12)
    """
    return study(subject, parses, **options).mask(synt=synt, pos=pos)
