"""Hiding: a subject read with any of a text's tokens hidden, no subset of them twice while its weights stay.

A token is removed by dropping it while everyone else keeps its position, which costs only the tokens that stay. Where
that is not the same as a token nobody attends to (models that measure distances by index), a self-test on the texts at
hand notices, and tokens are masked in place.
"""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbsal.errors import InputError, UnknownName
from nbsal.model import architecture, batching
from nbsal.model.subject import Subject
from nbsal.model.targets import Target
from nbsal.model.tokens import Encoded, Row
from nbsal.progress import Meter

WAYS = ("remove", "mask", "pad")
TOKENS = 2048  # a batch: enough to fill a processor's vector units, little enough to stay in its caches
Coalitions = NDArray[np.bool_]


class MaskedModel:
    """What a subject says of texts with some of their tokens hidden.

    `way` is "remove" (for all others the token is gone), "mask" or "pad" (that token stands in its place, in full
    view), or the id of a token to put there.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> row = subject.encode("A joy.")[0]
    >>> (logits,) = MaskedModel(subject).logits([row], [[[1, 1, 1, 0, 1], [1, 0, 0, 0, 1]]])
    >>> tuple(logits.shape)
    (2, 2)
    """

    def __init__(self, subject: Subject, way: str | int = "remove") -> None:
        self.subject = subject
        self.way = way
        self.filler = _filler(subject, way)
        self.forwards = 0  # subsets that the model was run on
        self._known: dict[tuple[Any, ...], _Known] = {}
        self._weights = architecture.weights_version(subject.model)  # what is known is known of these
        self._first = architecture.first_position(subject.model)
        self._placing = "position_ids" in inspect.signature(subject.model.forward).parameters
        # A decision that is read at positions needs every position to be there.
        droppable = way == "remove" and self._placing and subject.task == "sequence"
        self._droppable = _Lengths() if droppable else _Lengths(failed=0)

    def logits(self, rows: Sequence[Row], kept: Sequence[Any], meter: Meter | None = None) -> list[Tensor]:
        """Logits of every text under each of its subsets: a [subset, ...] tensor a text, on the CPU.

        `kept` holds a [subset, token] table a text, true where the token stays. `meter` counts subsets; a cancelled
        call keeps what it has read, and the next one goes on from there.
        """
        return self._asked(rows, kept, [None] * len(rows), meter)

    def values(
        self, rows: Sequence[Row], kept: Sequence[Any], targets: Sequence[Target], meter: Meter | None = None
    ) -> list[Tensor]:
        """The explained number of every text under each of its subsets, [subset] a text; its logits are let go."""
        return self._asked(rows, kept, targets, meter)

    def inputs(self, rows: Sequence[Row], kept: Sequence[Any]) -> dict[str, Tensor]:
        """What the model's forward takes for each text with one subset of its tokens, every position in place."""
        with self.subject.lock, torch.inference_mode(), architecture.eval_mode(self.subject.model):
            self._test(rows)
        return self._inputs([self._shown(row, one, False) for row, one in zip(rows, kept, strict=True)])

    def _asked(
        self, rows: Sequence[Row], kept: Sequence[Any], targets: Sequence[Target | None], meter: Meter | None
    ) -> list[Tensor]:
        now = architecture.weights_version(self.subject.model)
        if self._weights != now:
            self._weights, self._known = now, {}
        tables = [_table(row, given) for row, given in zip(rows, kept, strict=True)]
        names = [[one.tobytes() for one in np.packbits(table, axis=1)] for table in tables]
        known = [
            self._known.setdefault((row.ids, row.types, row.mask, target and target.terms), _Known(row, target))
            for row, target in zip(rows, targets, strict=True)
        ]
        wanted: dict[tuple[int, bytes], _Job] = {}
        for told, own, table in zip(known, names, tables, strict=True):
            new = zip(own, table, strict=True)
            wanted |= {(id(told), name): _Job(told, name, one) for name, one in new if name not in told.logits}
        if meter is not None:
            meter.step(sum(map(len, names)) - len(wanted))
        with (
            self.subject.lock,
            batching.memory_errors(),
            torch.inference_mode(),
            architecture.eval_mode(self.subject.model),
        ):
            self._test([job.told.row for job in wanted.values()])
            self._read(list(wanted.values()), meter)
        return [told.stacked(own) for told, own in zip(known, names, strict=True)]

    def _read(self, jobs: "list[_Job]", meter: Meter | None) -> None:
        """Run the model on every subset wanted, those of like lengths together; inputs are made batch by batch."""
        for job in jobs:
            job.dropping = self._droppable.holds(len(job.told.row))
            job.size = len(self._given(job.told.row, job.kept, job.dropping)[1])
        jobs.sort(key=lambda job: job.size)
        # A hidden token whose own position is read may attend to padding (DeBERTa): then no batch is padded.
        alike = self.way == "remove" and self.subject.task != "sequence"
        for batch in _packed(jobs, self.subject.one_at_a_time, alike):
            if meter is not None:
                meter.check()
            shown = [self._shown(job.told.row, job.kept, job.dropping) for job in batch]
            for job, logits in zip(batch, chain.from_iterable(batching.run_in_halves(shown, self._run)), strict=True):
                # Positions beyond a text's own are padding of the batch.
                job.told.keep(job.name, logits[: job.size] if logits.ndim > 1 else logits)
            self.forwards += len(batch)
            if meter is not None:
                meter.step(len(batch))

    def _shown(self, row: Row, kept: Coalitions, dropping: bool) -> "_Shown":
        """What the model is given of a text."""
        emptied = tuple(token if stays else self.filler for token, stays in zip(row.ids, kept.tolist(), strict=True))
        visible, places = self._given(row, kept, dropping)
        mask = tuple(int(seen and shows) for seen, shows in zip(row.mask, visible.tolist(), strict=True))
        shown = replace(row, ids=emptied, mask=mask).pick(places)
        return _Shown(shown, tuple(self._first + place for place in places))

    def _given(self, row: Row, kept: Coalitions, dropping: bool) -> tuple[Coalitions, Sequence[int]]:
        """What the model sees of a text, and the places of the tokens it is given."""
        if self.way != "remove":
            return np.ones_like(kept), range(len(row))
        visible = kept.copy()
        standing, end = self._standing(row, kept)
        visible[standing] = True
        return visible, np.flatnonzero(visible[:end]).tolist() if dropping else range(end)

    def _standing(self, row: Row, kept: Coalitions) -> tuple[int, int]:
        """A position where something must stand, since the decision is read there, and where the text ends.

        A token hidden there is emptied, not taken away.
        """
        if self.subject.pooling == "last":
            seen = np.flatnonzero(kept & np.array(row.mask, dtype=bool))
            last = int(seen[-1]) if len(seen) else row.last
            return last, last + 1
        return 0, len(row)

    def _run(self, batch: "Sequence[_Shown]", placing: bool | None = None) -> Tensor:
        return self.subject.logits(self._inputs(batch, placing)).cpu()

    def _inputs(self, batch: "Sequence[_Shown]", placing: bool | None = None) -> dict[str, Tensor]:
        encoded = Encoded([shown.row for shown in batch], self.subject.text_encoder.pad_id)
        inputs = self.subject.inputs(encoded)
        if self._placing if placing is None else placing:
            longest = encoded.longest
            padded = [[*shown.positions, *[0] * (longest - len(shown.positions))] for shown in batch]
            inputs["position_ids"] = torch.as_tensor(padded, device=self.subject.device)
        return inputs

    def _test(self, rows: Sequence[Row]) -> None:
        """Find out on these texts whether positions are what we take them for, and whether dropping is exact.

        What holds for one length holds for all shorter ones: the longest is tried first, then the middle.
        """
        by_length = {len(row): row for row in rows if not self._droppable.settled(len(row))}
        untold = sorted(by_length)
        if untold and not self._places(by_length[untold[-1]]):
            self._placing, self._droppable, untold = False, _Lengths(failed=0), []
        middle = -1
        while untold:
            length = untold[middle]
            self._droppable.note(length, self._drops(by_length[length]))
            untold = [length for length in untold if not self._droppable.settled(length)]
            middle = len(untold) // 2

    def _places(self, row: Row) -> bool:
        """Whether the model numbers the positions of a text as we do."""
        whole = _Shown(row, self._shown(row, np.ones(len(row), dtype=bool), False).positions)
        return _same(self._run([whole]), self._run([whole], placing=False))

    def _drops(self, row: Row) -> bool:
        """Whether dropped tokens are the same to the model as masked ones: every other token, and all but the ends."""
        alternate, ends = np.ones((2, len(row)), dtype=bool)
        alternate[list(row.content[1::2])] = False
        ends[list(row.content[1:-1])] = False
        pairs = [[self._shown(row, one, dropping) for dropping in (True, False)] for one in (alternate, ends)]
        return all(_same(self._run([dropped]), self._run([masked])) for dropped, masked in pairs)


@dataclass(frozen=True)
class _Shown:
    """A text as the model is given it, and the position of each of its tokens."""

    row: Row
    positions: tuple[int, ...]


@dataclass
class _Known:
    """What is known of a text: the logits of each subset, or a target's number, as bytes, for tensors are larger."""

    row: Row
    target: Target | None
    logits: dict[bytes, bytes] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32

    def keep(self, name: bytes, logits: Tensor) -> None:
        """Remember a subset's logits."""
        found = logits if self.target is None else self.target.value(logits)
        self.shape, self.dtype = tuple(found.shape), found.dtype
        self.logits[name] = found.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    def stacked(self, names: Sequence[bytes]) -> Tensor:
        """[subset, ...]."""
        joined = bytearray(b"".join(self.logits[name] for name in names))
        return torch.frombuffer(joined, dtype=self.dtype).reshape(len(names), *self.shape)


@dataclass(slots=True)
class _Job:
    """A subset of a text that is to be read: whether what it hides is dropped, and how many tokens are left."""

    told: _Known
    name: bytes
    kept: Coalitions
    dropping: bool = False
    size: int = 0


@dataclass
class _Lengths:
    """Up to which length of text something is known to hold, and from which it is known to fail."""

    held: int = 0
    failed: float = float("inf")

    def holds(self, length: int) -> bool:
        return length <= self.held

    def settled(self, length: int) -> bool:
        return length <= self.held or length >= self.failed

    def note(self, length: int, holds: bool) -> None:
        if holds:
            self.held = max(self.held, length)
        else:
            self.failed = min(self.failed, length)


def _same(one: Tensor, other: Tensor) -> bool:
    """Equal but for rounding."""
    close = 1e-5 if one.dtype in (torch.float32, torch.float64) else 1e-2
    scale = max(1.0, float(one.abs().max()))
    return bool(torch.isclose(one, other, rtol=0, atol=close * scale).all())


def _packed(jobs: Sequence[_Job], singly: bool, alike: bool) -> Iterator[list[_Job]]:
    """Batches of jobs that come sorted by length, each of at most `TOKENS` tokens; `alike`, of one length.

    A longer text begins a new batch once the old one is worth running, since all others would be padded to it.
    """

    def full(batch: list[_Job], job: _Job) -> bool:
        padded = job.size > batch[0].size and (alike or len(batch) * job.size > TOKENS // 4)
        return singly or padded or (len(batch) + 1) * job.size > TOKENS

    return batching.fill_batches(jobs, full)


def _table(row: Row, kept: Any) -> Coalitions:
    table = np.asarray(kept, dtype=bool)
    if table.ndim != 2 or table.shape[1] != len(row):
        raise InputError(
            f"A text of {len(row)} tokens takes a [subset, {len(row)}] table of what stays, not {table.shape}."
        )
    return table


def _filler(subject: Subject, way: str | int) -> int:
    """The token that stands where one is hidden."""
    tokenizer, config = subject.tokenizer, subject.model.config
    if isinstance(way, int) and not isinstance(way, bool):
        if not 0 <= way < config.vocab_size:
            raise InputError(f"There is no token {way}: ids run from 0 to {config.vocab_size - 1}.")
        return way
    if way not in WAYS:
        raise UnknownName("way to hide tokens", way, [*WAYS, "a token's id"])
    if way == "pad":
        return subject.text_encoder.pad_id
    mask = getattr(tokenizer, "mask_token_id", None)
    if way == "mask" and mask is None:
        raise InputError(f'{subject.name} has no mask token: hide tokens with "remove", "pad" or a token\'s id.')
    others = (getattr(tokenizer, f"{kind}_token_id", None) for kind in ("unk", "eos", "bos"))
    return next((found for found in (mask, *others) if found is not None), 0)
