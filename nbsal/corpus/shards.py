"""Explain consecutive rows of a corpus, texts or what is asked, and write them to one file, a shard."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np

from nbsal.corpus.folder.manifest import RunSettings, Shard, source_digest
from nbsal.corpus.folder.storage import Storage, digest
from nbsal.corpus.parquet import ASKED, ERROR, Cells, Result, scale_scores, to_bytes, to_cells
from nbsal.corpus.sources.open import Columns, UnreadableRow
from nbsal.explain.batches import explain_rows
from nbsal.explain.explainer import Explainer
from nbsal.explain.prompt.sources import PLAIN
from nbsal.explain.replies import check_budget, explain_row, write_rows
from nbsal.explain.reply import STOPS
from nbsal.explain.reply_settings import OF_ALL_ROWS, ReplySettings
from nbsal.explain.saliency import Saliency
from nbsal.explain.scoring.served import server_of
from nbsal.model.running import batching
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.errors import InputError, NbsalError, UnknownName
from nbsal.support.progress import Meter

Pending = tuple[int, list[Any]]  # the number of a shard that is to be explained, and its rows
DTYPES = ("float16", "float32")  # of stored scores of texts
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a run does with each shard. Its explainers explain one model: a target of texts, or replies."""

    explainers: Mapping[str, Explainer]
    plan: RunSettings
    target: Any = None  # of texts
    replies: ReplySettings | None = None  # how replies are written and explained; None: texts are explained
    columns: Sequence[str] = ()  # what the values of a row that asks are; none: the row says it

    @classmethod
    def of_texts(
        cls, explainers: Mapping[str, Explainer], shard_rows: int, text: Columns, target: Any, dtype: str
    ) -> Self:
        """Explain a target of every text."""
        if dtype not in DTYPES:
            raise UnknownName("dtype", dtype, DTYPES)
        plan = RunSettings.create(explainers, shard_rows, text, target, dtype)
        return cls(explainers=explainers, plan=plan, target=target)

    @classmethod
    def of_replies(
        cls,
        explainers: Mapping[str, Explainer],
        shard_rows: int,
        columns: Mapping[str, str],
        arguments: Mapping[str, Any],
    ) -> Self:
        """Explain the reply to every row, as `nbsal.answer` does with these arguments."""
        tokenizer = next(iter(explainers.values())).subject.tokenizer
        settings = ReplySettings.parse(tokenizer, arguments, OF_ALL_ROWS)
        if settings.seed is None and settings.generate.get("do_sample") and "reply" not in columns:
            message = "do_sample=True draws tokens, which a resumed run must draw again. Pass a seed."
            raise InputError(message, argument="seed", value=None)
        recorded = _plan_settings(settings, columns)
        plan = RunSettings.create(explainers, shard_rows, columns.get("asked", ASKED), replies=recorded)
        return cls(explainers=explainers, plan=plan, replies=settings, columns=tuple(columns))

    @property
    def subject(self) -> Subject:
        """The model that all explainers explain."""
        return next(iter(self.explainers.values())).subject

    def prepared(self, pending: Iterable[Pending]) -> Iterable[Pending]:
        """The shards that are to be run; a server's budget must allow all of their calls."""
        if self.replies is None or server_of(self.subject) is None:
            return pending
        shards = list(pending)  # as many as are paid for
        size = self.plan.shard_rows
        rows = {
            size * number + at: asked_row(value, self.columns)
            for number, some in shards
            for at, value in enumerate(some)
        }
        check_budget(self.explainers, rows, self.replies)
        return shards

    def run(self, storage: Storage, number: int, values: Sequence[Any], meter: Meter) -> Shard:
        """Explain the rows of a shard and write them to its file.

        The result does not depend on other shards, so a shard can be run again anywhere.
        """
        first, rows = number * self.plan.shard_rows, values
        if self.replies is None:
            results = _explain_texts(self, first, rows, meter)
        else:
            rows = [asked_row(value, self.columns) for value in values]
            results = _explain_replies(self, self.replies, first, rows, meter)
        cells = to_cells(self.plan, first, rows, results)
        data = to_bytes(self.plan, cells)
        shard = shard_of(number, first, values, cells, data)
        storage.write(shard.name, data)
        return shard


def asked_row(value: Any, columns: Sequence[str]) -> Any:
    """A row of a source as a dict of what is asked, the documents and the reply."""
    if isinstance(value, UnreadableRow):
        return value
    if isinstance(value, Mapping) and not columns:
        row = dict(value)
    else:
        values = value if isinstance(value, tuple) and len(value) == len(columns) else (value,)
        row = dict(zip(columns or [ASKED], values, strict=False))
    return row | {"documents": row.get("documents") or None}  # an empty cell holds no documents


def _explain_texts(task: Task, first: int, values: Sequence[Any], meter: Meter) -> list[Result]:
    """The explanations of each text by every explainer, in batches of similar lengths, or the texts of errors."""
    encoded = _encode(task.subject, first, values)
    errors = {place: error for place, error in enumerate(encoded) if isinstance(error, str)}
    meter.step(len(errors))
    places = [place for place in range(len(encoded)) if place not in errors]
    rows = Encoded([row for row in encoded if not isinstance(row, str)], task.subject.text_encoder.pad_id)
    explained = [dict[str, Saliency]() for _ in rows]

    def store(name: str, at: int, saliency: Saliency) -> None:
        explained[at][name] = saliency

    def failed(at: int, error: Exception) -> None:
        errors[places[at]] = error_text(error)

    batches = token_batches(rows, 0 if task.subject.unbatchable else task.plan.tokens)
    explain_rows(task.explainers, rows, [task.target] * len(rows), store, meter, batches, failed)
    results: dict[int, Result] = {}
    for place, saliencies in zip(places, explained, strict=True):
        results[place] = _check_finite(saliencies, task.plan.dtype)
    results |= errors
    return [results[place] for place in range(len(values))]


def _explain_replies(
    task: Task, settings: ReplySettings, first: int, rows: Sequence[Any], meter: Meter
) -> list[Result]:
    """The answers of each row by every explainer, whose replies are written in batches, or the texts of errors."""
    results: list[Result] = []
    for at, (row, written) in enumerate(write_rows(task.explainers, rows, settings, meter), first):
        meter.check()
        done = meter.done
        results.append(_attempt(row, partial(explain_row, task.explainers, row, at, settings, meter, written)))
        meter.reach(done + 1)
    return results


def _encode(subject: Subject, first: int, values: Sequence[Any]) -> list[Row | str]:
    """The encoded texts of rows, or the texts of their errors, if possible from one call of the tokenizer."""
    try:
        return list(subject.encode(list(values)))
    except Exception:  # of at least one row
        singles = [_attempt(v, partial(subject.encode, [v], first=number)) for number, v in enumerate(values, first)]
        return [single if isinstance(single, str) else single[0] for single in singles]


def _attempt(row: Any, explain: Callable[[], T]) -> T | str:
    """What is made of a row, or the text of the error that prevented it."""
    if isinstance(row, UnreadableRow):
        return row.reason
    try:
        return explain()
    except Exception as error:  # a model may raise anything for a text: store the error and continue
        return error_text(error)


def error_text(error: Exception) -> str:
    """What is stored of an error in place of the row's explanations; an error about all rows is raised."""
    if isinstance(error, STOPS):
        raise error
    return str(error) if isinstance(error, NbsalError) else f"{type(error).__name__}: {error}"


def _check_finite(saliencies: dict[str, Saliency], dtype: str) -> Result:
    for name, saliency in saliencies.items():
        if not np.isfinite(scale_scores(saliency.scores, dtype)[0]).all():
            return f"A score of {name} is NaN or infinite."
    return saliencies


def token_batches(rows: Encoded, tokens: int) -> Iterator[list[int]]:
    """Group rows of similar lengths into batches of at most `tokens` tokens with padding, and at least one row."""
    places = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    return batching.fill_batches(places, lambda batch, place: len(rows[place]) * (len(batch) + 1) > tokens)


def shard_of(number: int, first: int, values: Sequence[Any], cells: Sequence[Cells], data: bytes) -> Shard:
    """The shard with some values of the source, and the rows and bytes of its table."""
    explained = [row for row in cells if ERROR not in row]
    return Shard(
        name=f"part-{number:06}.parquet",
        first=first,
        rows=len(cells),
        failed=len(cells) - len(explained),
        cut=sum(1 for row in explained if row.get("dropped")),
        tokens=sum(len(row["token_ids"]) for row in explained),
        size=len(data),
        checksum=digest(data),
        source=source_digest(values),
    )


def _plan_settings(settings: ReplySettings, columns: Mapping[str, str]) -> dict[str, Any]:
    """What the manifest holds of the settings; a template and tools as checksums."""
    entries = {name: getattr(settings, name) for name in (*OF_ALL_ROWS, "generate")} | {"columns": dict(columns)}
    if settings.layout == PLAIN:
        del entries["layout"]  # which runs of earlier versions do not have
    if settings.template_settings:
        entries["template_settings"] = settings.template_settings
    for name in ("template", "tools"):
        if entries[name] is not None:
            entries[name] = hashlib.sha256(repr(entries[name]).encode()).hexdigest()
    stored: dict[str, Any] = json.loads(json.dumps(entries, default=repr))
    return stored
