"""A stored corpus, opened without its model; shards are read when they are needed."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, overload

import numpy as np

from nbsal import evaluation
from nbsal.corpus import arrays
from nbsal.corpus.folder import integrity
from nbsal.corpus.folder.manifest import VOCABULARY, Manifest, Shard
from nbsal.corpus.folder.storage import Storage
from nbsal.corpus.parquet import ERROR, PAIR, TEXT, from_table
from nbsal.corpus.replies import Replies
from nbsal.corpus.stored import Stored, read_manifest, reads_shards
from nbsal.corpus.units import Units, columns_of
from nbsal.evaluation import clouds
from nbsal.explain.saliency import Saliencies, Saliency
from nbsal.methods.lazy import Subject
from nbsal.support.errors import InputError, NoSuchRow, UnknownName
from nbsal.support.lazy import pyarrow
from nbsal.support.validation import checked, plural


@checked
class Corpus(Stored, Sequence[Saliency]):
    """A sequence of the explanations by the first method, in the order of the source, without failed rows.

    `saliency(i)` is the explanation of row i of the source by any method; `dataset` has all rows and columns.

    >>> import tempfile, nbsal
    >>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     corpus = nbsal.corpus.explain(explainer, ["A joy.", " "], out, progress=False)
    ...     corpus.methods, len(corpus), corpus.failures()["error"].item()
    (['gradcam'], 1, 'Text 1 is empty or blank. Pass a text with words.')
    """

    @property
    def truncated(self) -> int:
        """The number of texts that were truncated to the model's maximum length."""
        return sum(shard.cut for shard in self.shards)

    def saliency(self, i: int, method: str | None = None) -> Saliency:
        """The explanation of text `i` of the source."""
        return self._load(*self._find_row(i), self._check_method(method))

    def saliencies(self, method: str | None = None) -> Iterator[Saliency]:
        """All explanations by one method; one shard at a time is in memory."""
        name = self._check_method(method)
        for at in range(len(self.shards)):
            yield from (self._load(at, place, name) for place in self._explained_places(at))

    @reads_shards
    def table(self, columns: Sequence[str]) -> Any:
        """Some columns of the explained texts as a `pyarrow.Table`; no other column is decoded."""
        self._require_shards()
        return pyarrow.concat_tables(self._explained_table(shard, columns) for shard in self.shards)

    def texts(self) -> arrays.Array:
        """All explained texts, those of pairs joined by a bar."""
        table = self.table([TEXT, PAIR])
        pairs = zip(table[TEXT].to_pylist(), table[PAIR].to_pylist(), strict=True)
        texts = np.empty(len(table), object)
        texts[:] = [text if pair is None else f"{text} | {pair}" for text, pair in pairs]
        return texts

    @reads_shards
    def predictions(self) -> arrays.Array:
        """The predictions for all explained texts."""
        return arrays.names(self.table(["prediction"])["prediction"])

    @reads_shards
    def confidences(self) -> arrays.Array:
        """The probability of each prediction, NaN where it has none."""
        if self.plan.task == "span":
            return np.array([round(saliency.confidence or 0.0, 4) for saliency in self])
        return arrays.largest(self.table(["probabilities"])["probabilities"])

    def clouds(
        self,
        method: str | None = None,
        idf: Mapping[str, float] | None = None,
        *,
        unit: str = "token",
        normalise: bool = True,
    ) -> "clouds.Cloud":
        """The token clouds of all texts, as from `nbsal.clouds.rank`."""
        return clouds.weigh(self.units(unit, method).groups(normalise), idf, unit)

    @reads_shards
    def units(self, unit: str, method: str | None = None) -> Units:
        """The tokens or words of all texts with their scores by one method, as arrays."""
        self._require_shards()
        name = self._check_method(method)
        if unit not in clouds.UNITS:
            raise UnknownName("unit", unit, clouds.UNITS)
        tables = (self._explained_table(shard, columns_of(name)) for shard in self.shards)
        return Units.read(tables, name, self._vocabulary, unit, self.tokens)

    def games(
        self,
        subject: Subject | None = None,
        labels: Iterable[Any] | None = None,
        rows: Iterable[int] | None = None,
        **options: Any,
    ) -> "evaluation.Results":
        """Play both games with the stored scores of every method; the model only runs on texts with hidden tokens.

        `subject` is the model that was explained; without it, the model is loaded by its name. `rows` are row numbers
        of the source, all by default, and `labels` are the labels of these rows.
        """
        from nbsal.corpus import stored_method  # imports torch

        numbers = None if rows is None else list(rows)
        saliencies = {
            name: list(self.saliencies(name)) if numbers is None else [self.saliency(i, name) for i in numbers]
            for name in self.methods
        }
        explainers, texts, cache = stored_method.stored_explainers(self.plan, saliencies, subject)
        return evaluation.games(explainers, texts, labels, cache=cache, **options)

    @overload
    def __getitem__(self, index: int) -> Saliency: ...
    @overload
    def __getitem__(self, index: slice) -> Saliencies: ...
    def __getitem__(self, index: int | slice) -> Saliency | Saliencies:
        if isinstance(index, slice):
            return Saliencies([self[i] for i in range(*index.indices(len(self)))])
        position = index + len(self) if index < 0 else index
        for at, end in enumerate(accumulate(shard.explained for shard in self.shards)):
            if 0 <= position < end:
                place = self._explained_places(at)[position - end + self.shards[at].explained]
                return self._load(at, place, self.methods[0])
        message = f"There is no explanation {index}: {self.location} has {plural(len(self), 'explanation')}."
        raise NoSuchRow(message, argument="index", value=index)

    def __iter__(self) -> Iterator[Saliency]:
        return self.saliencies()

    @cached_property
    def _vocabulary(self) -> list[str]:
        names: list[str] = json.loads(self._read_file(VOCABULARY, self.plan.vocabulary))
        return names

    def _explained_table(self, shard: Shard, columns: Sequence[str]) -> Any:
        table = self._read_columns(shard, list(dict.fromkeys([*columns, ERROR])))
        return table.filter(table[ERROR].is_null()).select(columns)

    @reads_shards
    def _explained_places(self, at: int) -> list[int]:
        """The rows of a shard that have scores."""
        places = [place for place, valid in enumerate(self._table(at)[ERROR].is_null().to_pylist()) if valid]
        if len(places) != self.shards[at].explained:
            raise ValueError(f"{len(places)} rows have scores, not {self.shards[at].explained}")
        return places

    @reads_shards
    def _load(self, at: int, place: int, name: str) -> Saliency:
        return from_table(self._table(at), place, name, self.plan, self._vocabulary)


@checked
def open_corpus(location: str | os.PathLike[str]) -> Corpus | Any:  # Any: Replies, which no type checker can foresee
    """Open the corpus in a folder, or at an address that fsspec supports; the run need not be complete.

    Explained texts are a `Corpus`, explained replies are `Replies`. Files of another size than they were written with
    are refused; their content is checked when it is read.

    >>> import tempfile, nbsal
    >>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     _ = nbsal.corpus.explain(explainer, ["A joy.", "A bore."], out, progress=False)
    ...     nbsal.corpus.open(out).clouds(unit="word").labels
    ['negative', 'positive']
    """
    storage = Storage(location)
    manifest = read_manifest(storage)
    integrity.check_sizes(storage, manifest)
    return open_manifest(storage, manifest)


@checked
def open_replies(location: str | os.PathLike[str]) -> Replies:
    """Open the explained replies in a folder, or at an address that fsspec supports; the run need not be complete.

    >>> import tempfile, nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/notes"), "gae")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     _ = nbsal.corpus.explain_replies(explain, ["Who?"], out, max_new_tokens=4, progress=False)
    ...     len(nbsal.corpus.open_replies(out).statistics())
    4
    """
    stored = open_corpus(location)
    if not isinstance(stored, Replies):
        message = f"{stored.location} holds explained texts. Open it with nbsal.corpus.open."
        raise InputError(message, argument="location", value=location)
    return stored


def open_manifest(storage: Storage, manifest: Manifest) -> Corpus | Replies:
    """What a run has stored up to now: texts or replies."""
    return (Corpus if manifest.plan.replies is None else Replies)(storage, manifest)
