"""Explain consecutive rows of a corpus, in batches of similar lengths, and write them to one file, a shard."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbsal.corpus.folder.manifest import RunSettings, Shard, source_digest
from nbsal.corpus.folder.storage import Storage, digest
from nbsal.corpus.parquet import RowResult, scale_scores, to_table
from nbsal.corpus.sources.open import UnreadableRow
from nbsal.explain.batches import explain_rows
from nbsal.explain.explainer import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.model.running import batching
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.errors import InputError, NbsalError
from nbsal.support.progress import Meter

Pending = tuple[int, list[Any]]  # the number of a shard that is to be explained, and its rows


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """What a run does with each shard: the explainers, which explain one model, and the plan."""

    explainers: Mapping[str, Explainer]
    plan: RunSettings

    @property
    def subject(self) -> Subject:
        """The model that all explainers explain."""
        return next(iter(self.explainers.values())).subject

    def prepared(self, pending: Iterable[Pending]) -> Iterable[Pending]:
        """The shards that are to be run, if they may be."""
        return pending

    @abstractmethod
    def run(self, storage: Storage, number: int, values: Sequence[Any], meter: Meter) -> Shard:
        """Explain the rows of a shard and write them to its file.

        The result does not depend on other shards, so a shard can be run again anywhere.
        """


@dataclass(frozen=True, kw_only=True)
class ShardTask(Task):
    """Explain one target of every text."""

    target: Any

    def run(self, storage: Storage, number: int, values: Sequence[Any], meter: Meter) -> Shard:
        first = number * self.plan.shard_rows
        results = self.explain_rows(first, values, meter)
        data = to_table(self.plan, first, values, results)
        rows = [next(iter(result.values())).row for result in results if not isinstance(result, str)]
        cut = sum(1 for row in rows if row.dropped)
        shard = shard_of(self.plan, number, values, data, [len(row) for row in rows], cut)
        storage.write(shard.name, data)
        return shard

    def explain_rows(self, first: int, values: Sequence[Any], meter: Meter) -> list[RowResult]:
        """The explanations of each row by every explainer, or the text of the error that prevented them."""
        encoded = dict(enumerate(self._encode_all(values, first)))
        results: dict[int, RowResult] = {place: error for place, error in encoded.items() if isinstance(error, str)}
        meter.step(len(results))
        rows = Encoded([row for row in encoded.values() if isinstance(row, Row)], self.subject.text_encoder.pad_id)
        places = [place for place, row in encoded.items() if isinstance(row, Row)]
        explained: dict[int, dict[str, Saliency]] = {place: {} for place in places}

        def store(name: str, at: int, saliency: Saliency) -> None:
            explained[places[at]][name] = saliency

        def failed(at: int, error: Exception) -> None:
            results[places[at]] = error_text(error)

        batches = token_batches(rows, 0 if self.subject.unbatchable else self.plan.tokens)
        explain_rows(self.explainers, rows, [self.target] * len(rows), store, meter, batches, failed)
        results = {place: self._check_finite(explained[place]) for place in places} | results
        return [results[place] for place in range(len(values))]

    def _encode_all(self, values: Sequence[Any], first: int) -> list[Row | str]:
        """The encoded texts of rows, or the texts of their errors, if possible from one call of the tokenizer."""
        try:
            return list(self.subject.encode(list(values)))
        except InputError:  # of at least one row
            return [self._encode(value, number) for number, value in enumerate(values, first)]

    def _encode(self, value: Any, number: int) -> Row | str:
        """The encoded text of a row, or the text of its error."""
        if isinstance(value, UnreadableRow):
            return value.reason
        try:
            return self.subject.encode([value], first=number)[0]
        except InputError as error:
            return str(error)

    def _check_finite(self, saliencies: dict[str, Saliency]) -> RowResult:
        for name, saliency in saliencies.items():
            if not np.isfinite(scale_scores(saliency.scores, self.plan.dtype)[0]).all():
                return f"A score of {name} is NaN or infinite."
        return saliencies


def token_batches(rows: Encoded, tokens: int) -> Iterator[list[int]]:
    """Group rows of similar lengths into batches of at most `tokens` tokens with padding, and at least one row."""
    places = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    return batching.fill_batches(places, lambda batch, place: len(rows[place]) * (len(batch) + 1) > tokens)


def shard_of(
    plan: RunSettings, number: int, values: Sequence[Any], data: bytes, sizes: Sequence[int], cut: int = 0
) -> Shard:
    """The shard with a table; `sizes` are the numbers of tokens of the rows that were explained."""
    return Shard(
        name=f"part-{number:06}.parquet",
        first=number * plan.shard_rows,
        rows=len(values),
        failed=len(values) - len(sizes),
        cut=cut,
        tokens=sum(sizes),
        size=len(data),
        checksum=digest(data),
        source=source_digest(values),
    )


def error_text(error: Exception) -> str:
    """What is stored of an error in place of the row's explanations."""
    return str(error) if isinstance(error, NbsalError) else f"{type(error).__name__}: {error}"
