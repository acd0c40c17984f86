"""Corpus: a folder of explanations opened again; nothing is read before it is asked for, and the model never is."""

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, overload

from nbsal import clouds, evaluation
from nbsal.corpus import stored_method
from nbsal.corpus.manifest import Manifest, Plan, Shard
from nbsal.corpus.parquet import ERROR, from_table
from nbsal.corpus.storage import Storage
from nbsal.corpus.vocabulary import read_vocabulary
from nbsal.errors import InputError, UnknownName
from nbsal.model.subject import Subject
from nbsal.saliency import Saliencies, Saliency
from nbsal.validation import loading

if TYPE_CHECKING:
    import pandas


class Corpus(Sequence[Saliency]):
    """The texts that were explained, in the order of the source, as the first method sees them.

    `dataset` is all rows and columns, lazily; `saliency(i)` is row i of the source under any method.

    >>> import tempfile, nbsal
    >>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     found = nbsal.corpus.explain(explainer, ["A joy.", " "], out, progress=False)
    ...     found.methods, len(found), found.failures()["error"].item()
    (['gradcam'], 1, 'Text 1 is empty or blank: there is nothing to explain.')
    """

    def __init__(self, storage: Storage, manifest: Manifest) -> None:
        self.place = storage.place
        self.plan: Plan = manifest.plan
        self.shards: list[Shard] = [manifest.shards[number] for number in sorted(manifest.shards)]
        self.complete = manifest.complete
        self._storage = storage
        self._table = lru_cache(maxsize=2)(self._read)

    @property
    def methods(self) -> list[str]:
        """The names under which texts were explained."""
        return list(self.plan.methods)

    @property
    def rows(self) -> int:
        """How many rows of the source are there, those that failed among them."""
        return sum(shard.rows for shard in self.shards)

    @property
    def failed(self) -> int:
        """How many rows could not be explained."""
        return sum(shard.failed for shard in self.shards)

    @property
    def cut(self) -> int:
        """How many texts were longer than the model reads."""
        return sum(shard.cut for shard in self.shards)

    @property
    def tokens(self) -> int:
        """How many tokens have scores."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def size(self) -> int:
        """How many bytes the dataset takes."""
        return sum(shard.size for shard in self.shards)

    @cached_property
    def dataset(self) -> Any:
        """All shards as a lazy `pyarrow.dataset.Dataset`: `.to_table(columns=..., filter=...)`."""
        from pyarrow import dataset

        paths = [self._storage.where(shard.name) for shard in self.shards]
        if not paths:
            raise InputError(f"{self.place} holds no finished shard yet.")
        return dataset.dataset(paths, filesystem=self._storage.files, format="parquet")

    def to_frame(self, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """One row a text; name the columns that are wanted of a large corpus."""
        return self._frame(columns)

    def failures(self) -> "pandas.DataFrame":
        """The rows that could not be explained, each with its error."""
        from pyarrow import dataset

        return self._frame(["text_id", "text", ERROR], dataset.field(ERROR).is_valid())

    def saliency(self, i: int, method: str | None = None) -> Saliency:
        """What was found for row `i` of the source."""
        at = next((at for at, shard in enumerate(self.shards) if shard.first <= i < shard.first + shard.rows), None)
        if at is None:
            raise InputError(f"There is no row {i}: {self.place} holds {self.rows} rows so far, from 0.")
        return self._unpacked(at, i - self.shards[at].first, self._method(method))

    def saliencies(self, method: str | None = None) -> Iterator[Saliency]:
        """Every text that was explained, one after the other; a shard at a time is in memory."""
        name = self._method(method)
        for at in range(len(self.shards)):
            yield from (self._unpacked(at, place, name) for place in self._places(at))

    def clouds(
        self, method: str | None = None, idf: Mapping[str, float] | None = None, **options: Any
    ) -> "clouds.Cloud":
        """What `nbsal.clouds.rank` makes of all its texts."""
        return clouds.rank(self.saliencies(method), idf, **options)

    def games(
        self,
        subject: Subject | None = None,
        labels: Iterable[Any] | None = None,
        rows: Iterable[int] | None = None,
        **options: Any,
    ) -> "evaluation.Results":
        """Both games under every method, from stored scores: the model is only asked about texts with tokens hidden.

        `subject` is the model that was explained; without it, it is loaded by its name. `rows` are numbers of the
        source, all by default, and `labels` are theirs.
        """
        chosen = None if rows is None else list(rows)
        each = {
            name: list(self.saliencies(name)) if chosen is None else [self.saliency(i, name) for i in chosen]
            for name in self.methods
        }
        members, texts, cache = stored_method.stored_explainers(self.plan, each, subject)
        return evaluation.games(members, texts, labels, cache=cache, **options)

    @overload
    def __getitem__(self, index: int) -> Saliency: ...
    @overload
    def __getitem__(self, index: slice) -> Saliencies: ...
    def __getitem__(self, index: int | slice) -> Saliency | Saliencies:
        if isinstance(index, slice):
            return Saliencies([self[i] for i in range(*index.indices(len(self)))])
        wanted = index + len(self) if index < 0 else index
        for at, end in enumerate(accumulate(shard.explained for shard in self.shards)):
            if 0 <= wanted < end:
                place = self._places(at)[wanted - end + self.shards[at].explained]
                return self._unpacked(at, place, self.methods[0])
        raise IndexError(index)

    def __len__(self) -> int:
        return sum(shard.explained for shard in self.shards)

    def __iter__(self) -> Iterator[Saliency]:
        return self.saliencies()

    def _frame(self, columns: Sequence[str] | None, rows: Any = None) -> "pandas.DataFrame":
        with loading(self.place, "folder of sound Parquet files: explain the corpus again, which redoes others alone"):
            for name in set(columns or ()) - set(self.dataset.schema.names):
                raise UnknownName("column of this corpus", name, self.dataset.schema.names)
            frame: pandas.DataFrame = self.dataset.to_table(columns=columns, filter=rows).to_pandas()
        return frame

    def _method(self, name: str | None) -> str:
        if name is not None and name not in self.methods:
            raise UnknownName("method in this corpus", name, self.methods)
        return name or self.methods[0]

    @cached_property
    def _vocabulary(self) -> list[str]:
        return read_vocabulary(self._storage, self.plan.vocabulary)

    def _read(self, at: int) -> Any:
        """A shard, if it is as it was written."""
        from pyarrow import parquet

        shard = self.shards[at]
        data = self._storage.sound(shard.name, shard.checksum)
        if data is None:
            raise InputError(f"{self.place}/{shard.name} is damaged: explain the corpus again, which redoes it alone.")
        return parquet.read_table(io.BytesIO(data))

    def _places(self, at: int) -> list[int]:
        """The rows of a shard that have scores."""
        return [place for place, valid in enumerate(self._table(at)[ERROR].is_null().to_pylist()) if valid]

    def _unpacked(self, at: int, place: int, name: str) -> Saliency:
        return from_table(self._table(at), place, name, self.plan, self._vocabulary)

    def __repr__(self) -> str:
        known = ((self.failed, "failed"), (self.cut, "cut to the model's length"))
        notes = [f"{count:,} {what}" for count, what in known if count]
        state = [] if self.complete else ["not complete"]
        return f"Corpus({', '.join([f'{self.rows:,} texts', *notes, *state, *self.methods])})"


def open_corpus(place: str | os.PathLike[str]) -> Corpus:
    """The corpus of a folder, finished or not.

    >>> import tempfile, nbsal
    >>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     _ = nbsal.corpus.explain(explainer, ["A joy.", "A bore."], out, progress=False)
    ...     nbsal.corpus.open(out).clouds(unit="word").labels
    ['negative', 'positive']
    """
    storage = Storage(place)
    manifest = Manifest.read(storage)
    if manifest is None:
        raise InputError(
            f"{storage.place} holds no corpus: make one with nbsal.corpus.explain(explainer, source, out)."
        )
    return Corpus(storage, manifest)
