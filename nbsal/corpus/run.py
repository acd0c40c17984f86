"""Runs: a source explained shard by shard, here or on a Dask cluster; what was done before is not done again."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any

import torch

from nbsal.corpus import cluster, vocabulary
from nbsal.corpus.dataset import Corpus, open_corpus
from nbsal.corpus.manifest import Manifest, Plan, Shard, source_digest
from nbsal.corpus.shards import ShardTask
from nbsal.corpus.sources import Columns, Source, open_source
from nbsal.corpus.storage import Storage
from nbsal.errors import Cancelled, InputError, UnknownName
from nbsal.evaluation.cache import Explainers, named_explainers
from nbsal.explainer import Explainer
from nbsal.progress import Meter, Progress
from nbsal.validation import positive_number

if TYPE_CHECKING:
    from distributed import Client

DTYPES = ("float16", "float32")
Job = tuple[int, list[Any]]  # the number of a shard, and its rows


def explain(
    explainers: Explainers,
    source: Any,
    out: str | os.PathLike[str],
    text: Columns = "text",
    client: "Client | None" = None,
    *,
    target: Any = None,
    shard_rows: int = 1000,
    dtype: str = "float16",
    resume: bool = True,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Corpus:
    """Explain every text of a source into a folder of Parquet files, and open it.

    `source` is a Parquet, CSV or JSONL file, a frame, a `datasets` table, or any iterable of texts, pairs or dicts;
    `text` is its column, or a pair of them. `out` is a folder, or an address that fsspec knows. A run that was stopped
    goes on where it was when it is called again; `resume=False` insists on a new folder. A row that cannot be explained
    is written down with its error. `target` is one for all texts. `client` is a Dask client: its workers, each with
    the model, share the shards and write them.

    >>> import tempfile, nbsal
    >>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     explain(explainer, ["A joy.", "A bore."], out, progress=False).to_frame()["prediction"].tolist()
    ['positive', 'negative']
    """
    if dtype not in DTYPES:
        raise UnknownName("dtype of scores", dtype, DTYPES)
    members, storage = _members(explainers), Storage(out)
    rows = open_source(source, text)
    with storage.locked():
        storage.sweep()
        manifest = Manifest.read(storage)
        if manifest and not resume:
            raise InputError(
                f"{storage.place} holds a corpus already: choose another folder, or go on with resume=True."
            )
        tokens = manifest.plan.tokens if manifest else None
        plan = Plan.of(members, positive_number(shard_rows, "shard_rows"), text, target, dtype, tokens)
        if manifest is None:
            manifest = Manifest(plan)
            manifest.write(storage)
        manifest.plan.check(plan)
        if not storage.sound(vocabulary.NAME, plan.vocabulary):
            storage.write(vocabulary.NAME, vocabulary.save_vocabulary(next(iter(members.values())).subject))
        _run(ShardTask(members, target, plan), rows, storage, manifest, client, progress, cancel)
        storage.sweep()  # of workers that were killed meanwhile
    return open_corpus(out)


def _run(
    work: ShardTask,
    source: Source,
    storage: Storage,
    manifest: Manifest,
    client: "Client | None",
    progress: Progress,
    cancel: Event | None,
) -> None:
    """Every shard of the source that is not done yet, listed as soon as it is."""
    with Meter(source.total, progress, cancel) as meter:
        missing = _missing(source.rows, storage, manifest, meter)
        done = (
            _here(work, storage, missing, meter)
            if client is None
            else cluster.shards(work, storage, missing, meter, client)
        )
        try:
            for number, shard in done:
                manifest.shards[number] = shard
                manifest.write(storage)
        except Cancelled as stopped:
            stopped.partial = open_corpus(storage.place)
            raise
    manifest.complete = True
    manifest.write(storage)


def _missing(rows: Iterable[Any], storage: Storage, manifest: Manifest, meter: Meter) -> Iterator[Job]:
    """Shards that are not there, or not as they were written; the others must hold what the source gives now."""
    source, number = iter(rows), 0
    while values := list(islice(source, manifest.plan.shard_rows)):
        meter.check()
        known = manifest.shards.get(number)
        if known and (known.rows, known.source) != (len(values), source_digest(values)):
            raise InputError(
                f"The source has changed since {storage.place} was begun: rows {known.first} to "
                f"{known.first + known.rows - 1} are others now. Explain it into another folder."
            )
        if known and storage.sound(known.name, known.checksum):
            meter.step(len(values))
        else:
            yield number, values
        number += 1
    if manifest.shards and number <= max(manifest.shards):
        raise InputError(
            f"The source has fewer rows than when {storage.place} was begun. Explain it into another folder."
        )


def _here(work: ShardTask, storage: Storage, jobs: Iterable[Job], meter: Meter) -> Iterator[tuple[int, Shard]]:
    with _threads():
        for number, values in jobs:
            yield number, work.shard(storage, number, values, meter)


@contextmanager
def _threads() -> Iterator[None]:
    """No more threads than processors that this process may use: a container's share, not the whole machine."""
    from dask.system import cpu_count

    before = torch.get_num_threads()
    torch.set_num_threads(min(before, cpu_count()))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _members(explainers: Explainers) -> dict[str, Explainer]:
    """Explainers by name, all of one model."""
    found = named_explainers(explainers)
    if any(len(runs) > 1 for runs in found.values()):
        raise InputError("A corpus keeps one explanation a text and name: name the runs apart.")
    members = {name: runs[0] for name, runs in found.items()}
    if len({explainer.subject for explainer in members.values()}) > 1:
        raise InputError("The explainers of a corpus explain one model: explain another into another folder.")
    if len({explainer.long for explainer in members.values()}) > 1:
        raise InputError('The explainers of a corpus read long texts in one way, all with long="truncate" or "window".')
    return members
