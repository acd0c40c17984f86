"""Shards: some rows of a corpus explained together, each in batches of like lengths, whatever is wrong with some."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbsal.corpus.manifest import Plan, Shard, source_digest
from nbsal.corpus.parquet import RowResult, scale_scores, to_table
from nbsal.corpus.sources import UnreadableRow
from nbsal.corpus.storage import Storage, digest
from nbsal.errors import Cancelled, InputError, NbsalError
from nbsal.explainer import Explainer, explain_batch
from nbsal.model import batching
from nbsal.model.tokens import Encoded, Row
from nbsal.progress import Meter


@dataclass(frozen=True)
class ShardTask:
    """The explainers of a run, what they are to explain of every text, and how."""

    explainers: Mapping[str, Explainer]
    target: Any
    plan: Plan

    def shard(self, storage: Storage, number: int, values: Sequence[Any], meter: Meter) -> Shard:
        """Explain those rows and write them down.

        Nothing of it depends on other shards, so that it can be done again, anywhere.
        """
        first = number * self.plan.shard_rows
        found = self.explained(first, values, meter)
        data = to_table(self.plan, first, values, found)
        name = f"part-{number:06}.parquet"
        storage.write(name, data)
        rows = [next(iter(one.values())).row for one in found if not isinstance(one, str)]
        return Shard(
            name=name,
            first=first,
            rows=len(values),
            failed=len(values) - len(rows),
            cut=sum(1 for row in rows if row.dropped),
            tokens=sum(map(len, rows)),
            size=len(data),
            checksum=digest(data),
            source=source_digest(values),
        )

    def explained(self, first: int, values: Sequence[Any], meter: Meter) -> list[RowResult]:
        """What every explainer says of each row, or the sentence why it says nothing."""
        subject = next(iter(self.explainers.values())).subject
        found: dict[int, RowResult] = {}
        rows: dict[int, Row] = {}
        for place, value in enumerate(values):
            read = self._read(value, first + place)
            if isinstance(read, Row):
                rows[place] = read
            else:
                found[place] = read
        meter.step(len(found))
        for places in token_batches(rows, 0 if subject.one_at_a_time else self.plan.tokens):
            meter.check()
            found |= self._batch({place: rows[place] for place in places}, meter)
            meter.step(len(places))
        return [found[place] for place in range(len(values))]

    def _read(self, value: Any, number: int) -> Row | str:
        if isinstance(value, UnreadableRow):
            return value.reason
        try:
            return next(iter(self.explainers.values())).subject.encode([value], first=number)[0]
        except InputError as error:
            return str(error)

    def _batch(self, rows: Mapping[int, Row], meter: Meter) -> dict[int, RowResult]:
        """A batch, until `meter` stops it; if it fails, text by text, since one of them may be the cause."""
        subject = next(iter(self.explainers.values())).subject
        encoded = Encoded(list(rows.values()), subject.text_encoder.pad_id)
        try:
            found = explain_batch(self.explainers, encoded, [self.target] * len(rows), meter.part(worth=0, total=1))
            each = {
                place: {name: saliencies[at] for name, saliencies in found.items()} for at, place in enumerate(rows)
            }
            return {place: self._checked(one) for place, one in each.items()}
        except Cancelled:
            raise
        except Exception as error:  # whatever a model makes of a text: it is written down, and the run goes on
            if len(rows) == 1:
                return {place: _sentence(error) for place in rows}
        return {at: one for place, row in rows.items() for at, one in self._batch({place: row}, meter).items()}

    def _checked(self, found: dict[str, Any]) -> RowResult:
        for name, saliency in found.items():
            if not np.isfinite(scale_scores(saliency.scores, self.plan.dtype)[0]).all():
                return f"A score of {name} is NaN or infinite."
        return found


def token_batches(rows: Mapping[int, Row], tokens: int) -> Iterator[list[int]]:
    """Places of rows of like lengths, as many as fit into so many tokens, padding included, and at least one."""
    places = sorted(rows, key=lambda place: len(rows[place]))
    return batching.fill_batches(places, lambda batch, place: len(rows[place]) * (len(batch) + 1) > tokens)


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, NbsalError) else f"{type(error).__name__}: {error}"
