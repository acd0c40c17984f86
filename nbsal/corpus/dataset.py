"""A stored corpus, opened without its model; shards are read when they are needed."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, overload

from nbsal import clouds, evaluation
from nbsal.corpus import integrity, stored_method
from nbsal.corpus.manifest import Manifest, Plan, Shard
from nbsal.corpus.parquet import ERROR, from_table
from nbsal.corpus.storage import Storage
from nbsal.corpus.vocabulary import read_vocabulary
from nbsal.errors import InputError, UnknownName
from nbsal.model.subject import Subject
from nbsal.saliency import Saliencies, Saliency
from nbsal.validation import checked, loading, plural

if TYPE_CHECKING:
    import pandas


DATASET = "readable Parquet dataset (nbsal.corpus.explain restores damaged shards)"


@checked
class Corpus(Sequence[Saliency]):
    """A sequence of the explanations by the first method, in the order of the source, without failed rows.

    `saliency(i)` is the explanation of row i of the source by any method; `dataset` has all rows and columns.

    >>> import tempfile, nbsal
    >>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     corpus = nbsal.corpus.explain(explainer, ["A joy.", " "], out, progress=False)
    ...     corpus.methods, len(corpus), corpus.failures()["error"].item()
    (['gradcam'], 1, 'Text 1 is empty or blank. Pass a text with words.')
    """

    def __init__(self, storage: Storage, manifest: Manifest) -> None:
        self.location = storage.location
        self.plan: Plan = manifest.plan
        self.shards: list[Shard] = [manifest.shards[number] for number in sorted(manifest.shards)]
        self.complete = manifest.complete
        self._storage = storage
        self._table = lru_cache(maxsize=2)(self._read_shard)

    @property
    def methods(self) -> list[str]:
        """The names of the methods."""
        return list(self.plan.methods)

    @property
    def rows(self) -> int:
        """The number of rows of the source that are stored, including those that failed."""
        return sum(shard.rows for shard in self.shards)

    @property
    def failed(self) -> int:
        """The number of rows that could not be explained."""
        return sum(shard.failed for shard in self.shards)

    @property
    def truncated(self) -> int:
        """The number of texts that were truncated to the model's maximum length."""
        return sum(shard.cut for shard in self.shards)

    @property
    def tokens(self) -> int:
        """The number of tokens that have scores."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def size(self) -> int:
        """The size of the dataset in bytes."""
        return sum(shard.size for shard in self.shards)

    @cached_property
    def dataset(self) -> Any:
        """All shards as a lazy `pyarrow.dataset.Dataset`: `.to_table(columns=..., filter=...)`.

        It checks the checksums of pages but not of whole files, which `verify` does.
        """
        from pyarrow import dataset

        self._require_shards()
        options = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        parquet = dataset.ParquetFileFormat(default_fragment_scan_options=options)
        paths = [self._storage.path_of(shard.name) for shard in self.shards]
        with loading(self.location, DATASET):
            return dataset.dataset(paths, filesystem=self._storage.files, format=parquet)

    def verify(self) -> list[str]:
        """Compare every file with its checksum; return the names of stray files, which are not part of the corpus.

        Damaged and missing files are an error that names them. Explanations and frames are checked when they are read,
        so this is for other programs that read the files, and after the files were copied.

        >>> import tempfile, nbsal
        >>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
        >>> with tempfile.TemporaryDirectory() as out:
        ...     nbsal.corpus.explain(explainer, ["A joy."], out, progress=False).verify()
        []
        """
        return integrity.verify_files(self._storage, _read_manifest(self._storage))

    def to_frame(self, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """A data frame with one row per text; for a large corpus, name the columns that you need."""
        import pyarrow

        self._require_shards()
        with ThreadPoolExecutor() as pool:
            tables = list(pool.map(lambda shard: self._read_columns(shard, columns), self.shards))
        frame: pandas.DataFrame = pyarrow.concat_tables(tables).to_pandas()
        return frame

    def failures(self) -> "pandas.DataFrame":
        """The texts that could not be explained, with their errors."""
        frame = self.to_frame(["text_id", "text", ERROR])
        return frame[frame[ERROR].notna()].reset_index(drop=True)

    def saliency(self, i: int, method: str | None = None) -> Saliency:
        """The explanation of text `i` of the source."""
        at = next((at for at, shard in enumerate(self.shards) if shard.first <= i < shard.first + shard.rows), None)
        if at is None:
            message = f"There is no text i={i}: {self.location} has {plural(self.rows, 'text')}, numbered from 0."
            raise InputError(message, argument="i", value=i)
        return self._load(at, i - self.shards[at].first, self._check_method(method))

    def saliencies(self, method: str | None = None) -> Iterator[Saliency]:
        """All explanations by one method; one shard at a time is in memory."""
        name = self._check_method(method)
        for at in range(len(self.shards)):
            yield from (self._load(at, place, name) for place in self._explained_places(at))

    def clouds(
        self, method: str | None = None, idf: Mapping[str, float] | None = None, **options: Any
    ) -> "clouds.Cloud":
        """The token clouds of all texts, as from `nbsal.clouds.rank`."""
        return clouds.rank(self.saliencies(method), idf, **options)

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
        raise IndexError(index)

    def __len__(self) -> int:
        return sum(shard.explained for shard in self.shards)

    def __iter__(self) -> Iterator[Saliency]:
        return self.saliencies()

    def _require_shards(self) -> None:
        if not self.shards:
            raise InputError(
                f"{self.location} has no finished shard yet. Run nbsal.corpus.explain to add some.",
                argument="location",
                value=self.location,
            )

    def _check_method(self, name: str | None) -> str:
        if name is not None and name not in self.methods:
            raise UnknownName("method", name, self.methods)
        return name or self.methods[0]

    @cached_property
    def _vocabulary(self) -> list[str]:
        return read_vocabulary(self._storage, self.plan.vocabulary)

    def _read_shard(self, at: int) -> Any:
        """The table of a shard."""
        return self._read_columns(self.shards[at])

    def _read_columns(self, shard: Shard, columns: Sequence[str] | None = None) -> Any:
        """Some columns of a shard, or all, after checking the checksum of the whole file."""
        from pyarrow import BufferReader, parquet

        data = self._storage.read_verified(shard.name, shard.checksum)
        if data is None:
            raise integrity.damage(self._storage, [shard.name])
        file = parquet.ParquetFile(BufferReader(data), page_checksum_verification=True)
        available = file.schema_arrow.names
        for name in columns or ():
            if name not in available:
                raise UnknownName("columns", name, available)
        return file.read() if columns is None else file.read(columns=columns).select(columns)

    def _explained_places(self, at: int) -> list[int]:
        """The rows of a shard that have scores."""
        return [place for place, valid in enumerate(self._table(at)[ERROR].is_null().to_pylist()) if valid]

    def _load(self, at: int, place: int, name: str) -> Saliency:
        return from_table(self._table(at), place, name, self.plan, self._vocabulary)

    def __repr__(self) -> str:
        counts = ((self.failed, "failed"), (self.truncated, "truncated"))
        notes = [f"{count:,} {what}" for count, what in counts if count]
        state = [] if self.complete else ["not complete"]
        return f"Corpus({', '.join([plural(self.rows, 'text'), *notes, *state, *self.methods])})"


@checked
def open_corpus(location: str | os.PathLike[str]) -> Corpus:
    """Open the corpus in a folder, or at an address that fsspec supports; the run need not be complete.

    Files of another size than they were written with are refused; their content is checked when it is read.

    >>> import tempfile, nbsal
    >>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     _ = nbsal.corpus.explain(explainer, ["A joy.", "A bore."], out, progress=False)
    ...     nbsal.corpus.open(out).clouds(unit="word").labels
    ['negative', 'positive']
    """
    storage = Storage(location)
    manifest = _read_manifest(storage)
    integrity.check_sizes(storage, manifest)
    return Corpus(storage, manifest)


def _read_manifest(storage: Storage) -> Manifest:
    manifest = Manifest.read(storage)
    if manifest is None:
        raise InputError(
            f"{storage.location} does not hold a corpus. Create one with nbsal.corpus.explain(explainer, source, out).",
            argument="location",
            value=storage.location,
        )
    return manifest
