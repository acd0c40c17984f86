"""Explain a corpus shard by shard, in this process or on a Dask cluster; finished shards are skipped."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import torch

from nbsal.corpus import cluster
from nbsal.corpus.dataset import Corpus, open_corpus, open_manifest
from nbsal.corpus.folder.destination import open_destination
from nbsal.corpus.folder.manifest import VOCABULARY, Manifest, RunSettings, Shard, source_digest, vocabulary_json
from nbsal.corpus.folder.storage import Storage
from nbsal.corpus.parquet import ASKED, TEXT
from nbsal.corpus.replies import Replies
from nbsal.corpus.shards import DTYPES, Pending, Task, asked_row
from nbsal.corpus.sources.open import Columns, RowStream, find_asked, open_columns, open_source
from nbsal.evaluation.cache import Explainers, named_explainers
from nbsal.explain.explainer import Explainer
from nbsal.explain.replies import default_for_rows, plain
from nbsal.explain.reply_settings import OF_ALL_ROWS, ReplySettings
from nbsal.explain.scoring.hops import Count
from nbsal.model.encoder_decoder import WRITERS
from nbsal.model.subject import Subject
from nbsal.support.errors import Cancelled, InputError, UnknownName
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, positive_number

if TYPE_CHECKING:
    from distributed import Client

TEXTS, REPLIES = 1000, 100  # rows of a shard: what is lost if a run is killed


@checked
def explain(
    explainers: Explainers,
    source: Any,
    out: str | os.PathLike[str],
    text: Columns = TEXT,
    client: "Client | None" = None,
    *,
    asked: str | None = None,
    documents: str | None = None,
    reply: str | None = None,
    target: Any = None,
    shard_rows: int | None = None,
    dtype: str = DTYPES[0],
    resume: bool = True,
    overwrite: bool = False,
    progress: Progress = True,
    cancel: Event | None = None,
    **settings: Any,
) -> Corpus | Any:  # Any: Replies, which no type checker can foresee
    """Explain every text or reply of a source, store the results as Parquet files in a folder, and open it.

    You can interrupt it at any time; call it again to resume, with the same model and settings. With `resume=False`, a
    folder that holds a corpus is an error; with `overwrite=True`, that corpus is replaced. A folder with other files is
    always refused. A row that cannot be explained is stored with its error.

    Texts become a `Corpus`. Replies of a language model become `Replies`: if `asked`, `documents` or `reply` is passed,
    or if its source has neither texts nor the column `text`, but lists of messages, or a column or dicts with "asked"
    or "messages", and perhaps "documents" and "reply". Any other source, prompts among them, is explained as texts.

    Args:
        explainers: An explainer, or several of the same model: a list, or a dict by name.
        source: A Parquet, CSV or JSONL file, a data frame, a `datasets` table, or an iterable of texts, pairs, lists of
            messages or dicts.
        out: A folder, or an address that fsspec supports.
        text: The column of the texts, or a pair of columns for pairs of texts.
        client: A Dask client, whose workers each load the model.
        asked: The column of the prompts or lists of messages, by default "asked".
        documents: The column of the lists of documents.
        reply: The column of the replies, as texts or token ids. Without a reply, the model writes one.
        target: What is explained of every text.
        shard_rows: How many rows a file has, by default 1,000 texts or 100 replies.
        dtype: The precision of the stored scores of texts; those of replies have float32.
        resume: Whether to resume what the folder holds.
        overwrite: Whether to replace what the folder holds.
        progress: Whether to show a progress bar, or a function that is called with what is done, and of how much.
        cancel: An event that stops the run; what is finished is the `partial` of the error.
        **settings: Of replies, as in `nbsal.answer`: `layout`, `unit`, `number`, `template`, `tools`, `seed`,
            `batch_size`, `hops`, `citations`, and those of what writes a reply. Where it draws tokens, row i draws them
            from `seed` + i.

    >>> import tempfile, nbsal
    >>> explainer = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> with tempfile.TemporaryDirectory() as out:
    ...     explain(explainer, ["A joy.", "A bore."], out, progress=False).to_frame()["prediction"].tolist()
    ['positive', 'negative']
    >>> explainer, chat = nbsal.Explainer(nbsal.load("demo/notes"), "occlusion"), {"role": "user", "content": "Who?"}
    >>> with tempfile.TemporaryDirectory() as out:
    ...     explain(explainer, [[chat]], out, max_new_tokens=4, progress=False)
    Replies(1 reply, occlusion)
    """
    options = ExecutionOptions(client, resume, overwrite, progress, cancel)
    members, storage = check_explainers(explainers), open_destination(out, source)
    names = {"asked": asked, "documents": documents, "reply": reply}
    source, columns = _find_asked(next(iter(members.values())).subject, source, text, names)
    if shard_rows is None:
        shard_rows = TEXTS if columns is None else REPLIES
    size = positive_number(shard_rows, "shard_rows")
    if columns is None:
        if settings:
            raise _unknown(settings)
        rows = open_source(source, text)
        task = Task.of_texts(members, size, text, target, dtype)
    else:
        _check_unused(text, target, dtype)
        task = Task.of_replies(members, size, columns, settings)
        rows = _open_asked(source, list(columns.values()))
    _run(task, rows, storage, options)
    return open_corpus(out)


@checked
def explain_replies(
    explainers: Explainers,
    source: Any,
    out: str | os.PathLike[str],
    asked: str = ASKED,
    documents: str | None = None,
    reply: str | None = None,
    client: "Client | None" = None,
    *,
    layout: str = "plain",
    unit: Any = None,
    number: str | None = None,
    template: str | None = None,
    tools: Any = None,
    seed: int | None = None,
    batch_size: int | None = None,
    hops: Count = 0,
    citations: bool = False,
    shard_rows: int = REPLIES,
    resume: bool = True,
    overwrite: bool = False,
    progress: Progress = True,
    cancel: Event | None = None,
    **generate: Any,
) -> Replies:
    """Explain the reply to every row of a source: `nbsal.corpus.explain` with these columns and settings of replies.

    `asked`, `documents` and `reply` are names of columns: of prompts or lists of messages, of lists of documents, and
    of replies as texts or token ids. Without a reply, the model writes one, with the settings of `generate` that are
    passed; where these draw tokens, row i draws them from `seed` + i. With `citations`, `Replies.citations` says of
    each citation whether the reply uses the document.

    >>> import tempfile, nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/notes"), "occlusion")
    >>> rows = [{"asked": [{"role": "user", "content": "Where does Mara live?"}], "notes": ["Mara lives in Oslo."]}]
    >>> with tempfile.TemporaryDirectory() as out:
    ...     replies = explain_replies(explain, rows, out, documents="notes", unit="document", progress=False)
    ...     replies.sources(k=1)[["reply", "text"]].values.tolist()
    [[' Mara lives in Oslo.', 'Where does Mara live?']]
    """
    replies = explain(
        explainers, source, out, client=client, asked=asked, documents=documents, reply=reply, layout=layout, unit=unit,
        number=number, template=template, tools=tools, seed=seed, batch_size=batch_size, hops=hops, citations=citations,
        shard_rows=shard_rows, resume=resume, overwrite=overwrite, progress=progress, cancel=cancel, **generate,
    )  # fmt: skip
    return cast(Replies, replies)


def default_methods(
    subject: Subject,
    source: Any,
    out: str | os.PathLike[str],
    text: Columns,
    names: Mapping[str, str | None],
    settings: Mapping[str, Any],
) -> list[str] | None:
    """The methods for the replies to a source's rows where none is named; None if its texts are explained.

    A run that is resumed keeps those that it was started with, since the memory that is available may differ.
    """
    source, columns = _find_asked(subject, source, text, names)
    if columns is None:
        return None
    if (manifest := Manifest.read(open_destination(out, source))) is not None:
        return list(manifest.plan.methods)
    own = ReplySettings.parse(subject.tokenizer, settings, OF_ALL_ROWS)
    rows = _open_asked(source, list(columns.values())).rows
    return [default_for_rows(subject, (asked_row(row, tuple(columns)) for row in rows), own)]


@dataclass(frozen=True)
class ExecutionOptions:
    """How a run goes, which changes none of its results."""

    client: Any
    resume: bool
    overwrite: bool
    progress: Progress
    cancel: Event | None

    def __post_init__(self) -> None:
        if self.client is not None and not hasattr(self.client, "register_plugin"):
            message = f"client must be a Dask client, not {self.client!r:.60}."
            raise InputError(message, argument="client", value=self.client)


def _run(task: Task, rows: RowStream, storage: Storage, options: ExecutionOptions) -> None:
    """Start or resume a run in a folder, and run the shards that are not finished.

    A cancelled run keeps the finished shards as `partial`.
    """
    with storage.lock():
        manifest = _start(task.plan, storage, options)
        # Batches stay as large as those of the first run, wherever it was.
        task = replace(task, plan=replace(task.plan, tokens=manifest.plan.tokens))
        manifest.plan.check_same(task.plan)
        if not storage.read_verified(VOCABULARY, task.plan.vocabulary):
            storage.write(VOCABULARY, vocabulary_json(task.subject))
        run = _run_locally if options.client is None else partial(cluster.run_shards, client=options.client)
        try:
            with Meter(rows.total, options.progress, options.cancel) as meter:
                pending = task.prepared(_pending_shards(rows.rows, storage, manifest, meter))
                for number, shard in run(task, storage, pending, meter):
                    manifest.shards[number] = shard
                    manifest.write(storage)
        except Cancelled as error:
            error.partial = open_manifest(storage, manifest)
            raise
        manifest.complete = True
        manifest.write(storage)
        storage.remove_temporary_files()  # of workers that were killed during the run


def _start(plan: RunSettings, storage: Storage, options: ExecutionOptions) -> Manifest:
    """The manifest of the run that a folder holds, or of a new one."""
    storage.remove_temporary_files()
    manifest = Manifest.read(storage)
    if manifest and not options.overwrite:
        if options.resume:
            return manifest
        raise InputError(
            f"{storage.location} already holds a corpus. Choose another folder, or pass resume=True to resume it "
            "or overwrite=True to replace it.",
            argument="out",
            value=storage.location,
        )
    if manifest:
        for name in (*(shard.name for shard in manifest.shards.values()), VOCABULARY):
            storage.remove(name)
    manifest = Manifest(plan)
    manifest.write(storage)
    return manifest


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
    if max(map(len, runs_by_name.values())) > 1:
        problem = "A corpus stores one explanation per text and name. Give each run its own name."
    elif len({explainer.subject for explainer in members.values()}) > 1:
        problem = "The explainers of a corpus must explain the same model. Use another folder for another model."
    elif len({explainer.long for explainer in members.values()}) > 1:
        problem = 'The explainers of a corpus must handle long texts alike: all with long="truncate" or all "window".'
    else:
        return members
    raise InputError(problem, argument="explainers", value=explainers)


def _find_asked(
    subject: Subject, source: Any, text: Columns, names: Mapping[str, str | None]
) -> tuple[Any, dict[str, str] | None]:
    """A source, and the columns of what a model is asked, by what they hold; None if it has texts to explain."""
    named = {key: name for key, name in names.items() if name is not None}
    if named:
        return source, {"asked": ASKED} | named
    return find_asked(source, TEXT) if text == TEXT and subject.task in WRITERS else (source, None)


def _open_asked(source: Any, names: Sequence[str]) -> RowStream:
    """What a model is asked, from the named columns of a source; without names, from its rows as they are."""
    rows = open_columns(source, names, texts=False)
    plain_rows = (tuple(map(plain, row)) if isinstance(row, tuple) else plain(row) for row in rows.rows)
    return RowStream(plain_rows, rows.total)


def _check_unused(text: Columns, target: Any, dtype: str) -> None:
    """Refuse what is only about texts, where replies are explained."""
    passed = {"text": text != TEXT, "target": target is not None, "dtype": dtype != DTYPES[0]}
    for name, value in zip(passed, (text, target, dtype), strict=True):
        if passed[name]:
            message = f"{name}={value!r:.60} is about texts that are explained themselves. Leave it out for replies."
            raise InputError(message, argument=name, value=value)


def _unknown(settings: Mapping[str, Any]) -> UnknownName:
    """The error for settings of replies, or misspelled ones, where texts are explained."""
    name, valid = next(iter(settings)), [name for name in signature(explain).parameters if name != "settings"]
    problem, choice = f"explain has no argument {name!r} for texts.", "For replies, pass asked=, documents= or reply=."
    return UnknownName(name, settings[name], valid, problem, choice, spelled=name)
