"""The dataset of a run: its shards, read when they are needed and checked as they are read, without any model."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache, wraps
from typing import Any, ClassVar, TypeVar

from nbsal.corpus.folder import integrity
from nbsal.corpus.folder.manifest import Manifest, RunSettings, Shard
from nbsal.corpus.folder.storage import Storage
from nbsal.corpus.parquet import ERROR, ROW, TEXT
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.lazy import dataset, pandas, pyarrow
from nbsal.support.validation import checked, loading, plural

DATASET = "readable Parquet dataset (nbsal.corpus.explain restores damaged shards)"
F = TypeVar("F", bound=Callable[..., Any])


def reads_shards(read: F) -> F:
    """A method of `Stored` that names the folder if a shard, whose checksum is right, holds something else."""

    @wraps(read)
    def call(self: Any, *arguments: Any, **settings: Any) -> Any:
        with loading(self.location, DATASET):
            return read(self, *arguments, **settings)

    return call  # type: ignore[return-value]


@checked
class Stored:
    """The shards of a run and its plan; `dataset` has all rows and columns."""

    asked: ClassVar[str] = TEXT  # the column of what was explained
    nouns: ClassVar[tuple[str, str]] = ("text", "texts")  # what was explained: one, several

    def __init__(self, storage: Storage, manifest: Manifest) -> None:
        self.location = storage.location
        self.plan: RunSettings = manifest.plan
        self.shards: list[Shard] = [manifest.shards[number] for number in sorted(manifest.shards)]
        self.complete = manifest.complete
        self._storage = storage
        self._table = lru_cache(maxsize=2)(lambda at: self._read_columns(self.shards[at]))  # the table of a shard

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
        return integrity.verify_files(self._storage, read_manifest(self._storage))

    @reads_shards
    def to_frame(self, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """A data frame with one row per text; for a large corpus, name the columns that you need."""
        self._require_shards()
        with ThreadPoolExecutor() as pool:
            tables = list(pool.map(lambda shard: self._read_columns(shard, columns), self.shards))
        frame: pandas.DataFrame = pyarrow.concat_tables(tables).to_pandas()
        return frame

    def failures(self) -> "pandas.DataFrame":
        """The texts that could not be explained, with their errors."""
        frame = self.to_frame([ROW, self.asked, ERROR])
        return frame[frame[ERROR].notna()].reset_index(drop=True)

    def __len__(self) -> int:
        return sum(shard.explained for shard in self.shards)

    def __repr__(self) -> str:
        counts = ((self.failed, "failed"), (sum(shard.cut for shard in self.shards), "truncated"))
        notes = [f"{count:,} {what}" for count, what in counts if count]
        state = [] if self.complete else ["not complete"]
        rows = f"{self.rows:,} {self.nouns[self.rows != 1]}"
        return f"{type(self).__name__}({', '.join([rows, *notes, *state, *self.methods])})"

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

    def _find_row(self, i: int) -> tuple[int, int]:
        """The shard that has row `i` of the source, and its place there."""
        for at, shard in enumerate(self.shards):
            if shard.first <= i < shard.first + shard.rows:
                return at, i - shard.first
        message = f"There is no row i={i}: {self.location} has {plural(self.rows, 'row')}, numbered from 0."
        raise InputError(message, argument="i", value=i)

    def _read_file(self, name: str, checksum: str) -> bytes:
        data = self._storage.read_verified(name, checksum)
        if data is None:
            raise integrity.damage(self._storage, [name])
        return data

    def _read_columns(self, shard: Shard, columns: Sequence[str] | None = None) -> Any:
        """Some columns of a shard, or all, after checking the checksum of the whole file."""
        from pyarrow import BufferReader, parquet

        data = BufferReader(self._read_file(shard.name, shard.checksum))
        file = parquet.ParquetFile(data, page_checksum_verification=True)
        if file.metadata.num_rows != shard.rows:
            raise integrity.damage(self._storage, [shard.name])
        available = file.schema_arrow.names
        for name in columns or ():
            if name not in available:
                raise UnknownName("columns", name, available)
        return file.read() if columns is None else file.read(columns=columns).select(columns)


def read_manifest(storage: Storage) -> Manifest:
    """The manifest of a folder, which must hold a corpus."""
    manifest = Manifest.read(storage)
    if manifest is None:
        raise InputError(
            f"{storage.location} does not hold a corpus. Create one with nbsal.corpus.explain(explainer, source, out).",
            argument="location",
            value=storage.location,
        )
    return manifest
