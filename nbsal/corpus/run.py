"""Explain a corpus shard by shard, in this process or on a Dask cluster; finished shards are skipped."""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any

import torch

from nbsal.corpus import cluster
from nbsal.corpus.dataset import Corpus, open_corpus
from nbsal.corpus.folder.destination import open_destination
from nbsal.corpus.folder.manifest import VOCABULARY, Manifest, RunSettings, Shard, source_digest, vocabulary_json
from nbsal.corpus.folder.storage import Storage
from nbsal.corpus.shards import Pending, ShardTask, Task
from nbsal.corpus.sources.open import Columns, RowStream, open_source
from nbsal.corpus.stored import Stored
from nbsal.evaluation.cache import Explainers, named_explainers
from nbsal.explain.explainer import Explainer
from nbsal.support.errors import Cancelled, InputError, UnknownName
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, positive_number

if TYPE_CHECKING:
    from distributed import Client

DTYPES = ("float16", "float32")


@checked
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
    overwrite: bool = False,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Corpus:
    """Explain every text of a source, store the explanations as Parquet files in a folder, and open it.

    You can interrupt it at any time; call it again to resume, with the same model and settings. With `resume=False`, a
    folder that holds a corpus is an error; with `overwrite=True`, that corpus is replaced. A folder with other files is
    always refused.

    `source` is a Parquet, CSV or JSONL file, a data frame, a `datasets` table, or an iterable of texts, pairs or dicts;
    `text` is the name of its text column, or a pair of names for pairs of texts. `out` is a folder or an address that
    fsspec supports. `target` is explained for every text. `dtype` is the precision of the stored scores. A row that
    cannot be explained is stored with its error. `client` is a Dask client, whose workers each load the model.

    >>> import tempfile, nbsal
    >>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     explain(explainer, ["A joy.", "A bore."], out, progress=False).to_frame()["prediction"].tolist()
    ['positive', 'negative']
    """
    if dtype not in DTYPES:
        raise UnknownName("dtype", dtype, DTYPES)
    members, storage = check_explainers(explainers), open_destination(out, source)
    rows, shard_rows = open_source(source, text), positive_number(shard_rows, "shard_rows")

    def create_task(tokens: int | None) -> Task:
        plan = RunSettings.create(members, shard_rows, text, target, dtype, tokens)
        return ShardTask(explainers=members, plan=plan, target=target)

    run_shards(create_task, rows, storage, Corpus, client, resume, overwrite, progress, cancel)
    return open_corpus(out)


def run_shards(
    create_task: Callable[[int | None], Task],
    rows: RowStream,
    storage: Storage,
    kind: type[Stored],
    client: "Client | None",
    resume: bool,
    overwrite: bool,
    progress: Progress,
    cancel: Event | None,
) -> None:
    """Start or resume a run in a folder, and run the shards that are not finished.

    `create_task` makes the task from the size of batches, which stays that of the first run. A cancelled run keeps the
    finished shards as `partial`, of that `kind`.
    """
    if client is not None and not hasattr(client, "register_plugin"):
        raise InputError(f"client must be a Dask client, not {client!r:.60}.", argument="client", value=client)
    with storage.lock():
        storage.remove_temporary_files()
        manifest = Manifest.read(storage)
        if manifest and not (resume or overwrite):
            raise InputError(
                f"{storage.location} already holds a corpus. Choose another folder, or pass resume=True to resume it "
                "or overwrite=True to replace it.",
                argument="out",
                value=storage.location,
            )
        task = create_task(manifest.plan.tokens if manifest and not overwrite else None)
        plan = task.plan
        if manifest and overwrite:
            for name in (*(shard.name for shard in manifest.shards.values()), VOCABULARY):
                storage.remove(name)
        if manifest is None or overwrite:
            manifest = Manifest(plan)
            manifest.write(storage)
        manifest.plan.check_same(plan)
        if not storage.read_verified(VOCABULARY, plan.vocabulary):
            storage.write(VOCABULARY, vocabulary_json(task.subject))
        try:
            with Meter(rows.total, progress, cancel) as meter:
                pending = task.prepared(_pending_shards(rows.rows, storage, manifest, meter))
                run = _run_locally if client is None else partial(cluster.run_shards, client=client)
                for number, shard in run(task, storage, pending, meter):
                    manifest.shards[number] = shard
                    manifest.write(storage)
        except Cancelled as error:
            error.partial = kind(storage, manifest)
            raise
        manifest.complete = True
        manifest.write(storage)
        storage.remove_temporary_files()  # of workers that were killed during the run


def _pending_shards(rows: Iterable[Any], storage: Storage, manifest: Manifest, meter: Meter) -> Iterator[Pending]:
    """The shards that are missing or damaged; refuses a source that differs from the one of the finished shards."""
    source, number = iter(rows), 0
    while values := list(islice(source, manifest.plan.shard_rows)):
        meter.check()
        shard = manifest.shards.get(number)
        if shard and (shard.rows, shard.source) != (len(values), source_digest(values)):
            raise InputError(
                f"The source has changed since the run in {storage.location} was started: rows {shard.first} to "
                f"{shard.first + shard.rows - 1} differ. Choose another folder for it.",
                argument="source",
                value=values,
            )
        if shard and storage.read_verified(shard.name, shard.checksum):
            meter.step(len(values))
        else:
            yield number, values
        number += 1
    if manifest.shards and number <= max(manifest.shards):
        raise InputError(
            f"The source has fewer rows than when the run in {storage.location} was started. Choose another folder for "
            "it.",
            argument="source",
        )


def _run_locally(task: Task, storage: Storage, pending: Iterable[Pending], meter: Meter) -> Iterator[tuple[int, Shard]]:
    """Run shards one after the other, with at most as many threads as CPUs, which a container may limit."""
    from dask.system import cpu_count

    before = torch.get_num_threads()
    torch.set_num_threads(min(before, cpu_count()))
    try:
        for number, values in pending:
            yield number, task.run(storage, number, values, meter)
    finally:
        torch.set_num_threads(before)


def check_explainers(explainers: Explainers) -> dict[str, Explainer]:
    """Explainers by name: one run each, of one model, with one way to handle long texts."""
    runs_by_name = named_explainers(explainers)
    members = {name: runs[0] for name, runs in runs_by_name.items()}
    if any(len(runs) > 1 for runs in runs_by_name.values()):
        problem = "A corpus stores one explanation per text and name. Give each run its own name."
    elif len({explainer.subject for explainer in members.values()}) > 1:
        problem = "The explainers of a corpus must explain the same model. Use another folder for another model."
    elif len({explainer.long for explainer in members.values()}) > 1:
        problem = 'The explainers of a corpus must handle long texts alike: all with long="truncate" or all "window".'
    else:
        return members
    raise InputError(problem, argument="explainers", value=explainers)
