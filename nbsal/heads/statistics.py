"""Statistics of attention heads (Song et al. 2024): heads that follow dependencies, and heads that follow positions."""

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
from nbsal.validation import is_iterable, loading, positive_number, real_number

if TYPE_CHECKING:
    import pandas

RELATIONS = ("nsubj", "obj", "amod", "advmod")
DIRECTIONS = ("head", "dependent", "both")
MIN_CASES = 30  # relations with fewer cases are marked as weak
Counts = NDArray[np.int64]


@dataclass
class HeadStudy:
    """Counts of what each head attends to most, over parsed sentences; frames and masks are computed from them.

    `cases` counts the dependencies of each relation and `hits`, for every head, those whose words its largest attention
    connects. `places` counts, for every head, where its largest attention is, relative to the attending position.
    `distances` counts the number of words from dependents to their heads.

    >>> import nbsal
    >>> parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    >>> counts = study(nbsal.load("demo/reviews"), [parse], progress=False)
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

    @classmethod
    def empty(cls, shape: tuple[int, int], relations: Sequence[str]) -> "HeadStudy":
        """A study without counts."""
        if not relations:
            raise InputError("relations is empty. Pass at least one, such as 'nsubj'.", argument="relations", value=[])
        if not all(isinstance(name, str) for name in relations):
            message = f"relations must be a list of names such as 'nsubj', not {relations!r:.60}."
            raise InputError(message, argument="relations", value=relations)
        hits = {name: np.zeros(shape, np.int64) for name in relations}
        return cls(shape, hits, dict.fromkeys(relations, 0), {name: Counter() for name in relations})

    @property
    def relations(self) -> "pandas.DataFrame":
        """alpha_k: the share of cases where a head's largest attention connects the words of a relation.

        `weak` marks relations with few cases.
        """
        import pandas

        rows = [
            (name, block, head, self.hits[name][block, head] / max(self.cases[name], 1), self.cases[name])
            for name in self.hits
            for block, head in np.ndindex(*self.shape)
        ]
        frame = pandas.DataFrame(rows, columns=["relation", "block", "head", "alpha", "cases"])
        return frame.assign(weak=frame["cases"] < MIN_CASES)

    @property
    def positions(self) -> "pandas.DataFrame":
        """alpha_i: the share of positions where a head's largest attention is at that offset."""
        import pandas

        rows = [
            (offset, block, head, self.places[offset][block, head] / max(self.rows, 1))
            for offset in sorted(self.places)
            for block, head in np.ndindex(*self.shape)
        ]
        return pandas.DataFrame(rows, columns=["offset", "block", "head", "alpha"])

    @property
    def offsets(self) -> "pandas.DataFrame":
        """lambda_k: the share of cases where the head of a relation is that many words after its dependent."""
        import pandas

        rows = [
            (name, offset, count, count / max(self.cases[name], 1))
            for name, counts in self.distances.items()
            for offset, count in sorted(counts.items())
        ]
        return pandas.DataFrame(rows, columns=["relation", "offset", "count", "share"])

    def mask(self, synt: float = 0.1, pos: float = 0.8) -> HeadMask:
        """The heads that follow a relation or a position.

        A head follows a relation if its alpha exceeds the share of the relation's most common distance by more than
        `synt`, and a position if its alpha for some offset is more than `pos`.
        """
        synt, pos = real_number(synt, "synt"), real_number(pos, "pos")
        relations = {}
        for name, hits in self.hits.items():
            most_common = max(self.distances[name].values(), default=0)
            alpha = hits / max(self.cases[name], 1)
            relations[name] = alpha > most_common / max(self.cases[name], 1) + synt
        shares = [counts / max(self.rows, 1) for counts in self.places.values()]
        positional = np.max(shares, axis=0) > pos if shares else np.zeros(self.shape, bool)
        return HeadMask(positional, relations)

    def __add__(self, other: "HeadStudy") -> "HeadStudy":
        """The study of the sentences of both."""
        if self.shape != other.shape or set(self.hits) != set(other.hits):
            message = "Only studies of the same model and the same relations can be added."
            raise InputError(message, argument="other", value=other)
        zeros = np.zeros(self.shape, np.int64)
        return HeadStudy(
            self.shape,
            {name: self.hits[name] + other.hits[name] for name in self.hits},
            {name: self.cases[name] + other.cases[name] for name in self.cases},
            {name: self.distances[name] + other.distances[name] for name in self.distances},
            {
                offset: self.places.get(offset, zeros) + other.places.get(offset, zeros)
                for offset in {*self.places, *other.places}
            },
            self.rows + other.rows,
            self.skipped + other.skipped,
        )

    def save(self, path: str | Path) -> None:
        """Save the counts as JSON."""
        content = {
            "nbsal-head-study": 1,
            "shape": self.shape,
            "hits": {name: counts.tolist() for name, counts in self.hits.items()},
            "cases": self.cases,
            "distances": {name: dict(counts) for name, counts in self.distances.items()},
            "places": {offset: counts.tolist() for offset, counts in self.places.items()},
            "rows": self.rows,
            "skipped": self.skipped,
        }
        Path(path).write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "HeadStudy":
        """Load a study that `save` wrote."""
        with loading(path, "saved head study"):
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            version = content.pop("nbsal-head-study")
            if version != 1:
                message = f"{path} has head study format {version!r}, which this version of nbsal cannot read."
                raise InputError(message, argument="path", value=path)
            content["shape"] = tuple(content["shape"])
            content["hits"] = {name: np.array(counts, np.int64) for name, counts in content["hits"].items()}
            content["places"] = {int(o): np.array(counts, np.int64) for o, counts in content["places"].items()}
            content["distances"] = {
                name: Counter({int(o): n for o, n in counts.items()}) for name, counts in content["distances"].items()
            }
            loaded = cls(**content)
            loaded._check()
            return loaded

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
        for i in columns:
            for offset in np.unique(offsets := largest[..., i] - i):
                self.places.setdefault(int(offset), np.zeros(self.shape, np.int64))[...] += offsets == offset
        self.rows += len(columns)

    def _check(self) -> None:
        """Refuse inconsistent counts."""
        by_relation = (self.hits, self.cases, self.distances)
        totals = (*self.cases.values(), *chain.from_iterable(counts.values() for counts in self.distances.values()))
        shapes = {counts.shape for counts in (*self.hits.values(), *self.places.values())}
        if len({frozenset(counts) for counts in by_relation}) > 1 or shapes != {self.shape}:
            raise ValueError("counts of different relations or heads")
        if not all(type(count) is int and count >= 0 for count in (self.rows, self.skipped, *totals)):
            raise ValueError("counts that are not whole numbers")

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
    """Count what every head of a model attends to most, over parsed sentences.

    `parses` is a CoNLL-U path or text, a list of Parse, or spaCy docs. `direction` says whose attention counts: that of
    the dependent on its "head", of the head on its "dependent", or "both". With `special`, special tokens and the
    attending position itself may have the largest attention. `variant="published"` counts as the authors' code did.

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
        raise InputError(
            f"subject must be what nbsal.load(model) returns, not {type(subject).__name__}.",
            argument="subject",
            value=subject,
        )
    names: list[Any] = list(relations) if is_iterable(relations) else [relations]
    sentences = sorted(read_parses(parses), key=lambda parse: len(parse.text))
    result = HeadStudy.empty((subject.depth, subject.heads), names)
    size = 1 if subject.unbatchable else positive_number(batch_size, "batch_size")

    def count_batch(batch: Sequence[Parse]) -> HeadStudy:
        counts = HeadStudy.empty(result.shape, names)
        encoded = subject.encode([parse.text for parse in batch])
        if variant:
            encoded = Encoded([published.without_separators(subject, row) for row in encoded], encoded.pad_id)
        attention = trace.record(subject, encoded, needs={"attention"}).attention
        for i, (row, parse) in enumerate(zip(encoded, batch, strict=True)):
            maps = [attention[b][i, :, : len(row), : len(row)].cpu() for b in range(subject.depth)]
            stacked = np.stack([m.to(torch.promote_types(m.dtype, torch.float32)).numpy() for m in maps])
            sentence_links = published.links(subject, row, parse) if variant else links(row, parse, direction)
            counts.count(row, stacked, sentence_links, special or bool(variant))
        return counts

    with Meter(len(sentences), progress, cancel) as meter:
        for start in range(0, len(sentences), size):
            meter.check()
            batch = sentences[start : start + size]
            result = sum(batching.run_in_halves(batch, count_batch), result)
            meter.step(len(batch))
    return result


def discover(subject: Subject, parses: Any, synt: float = 0.1, pos: float = 0.8, **options: Any) -> HeadMask:
    """Find the heads that follow syntax or position: `study(...).mask(...)` in one call.

    >>> import nbsal
    >>> parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    >>> discover(nbsal.load("demo/reviews"), [parse], progress=False).shape
    (6, 12)
    """
    return study(subject, parses, **options).mask(synt=synt, pos=pos)
