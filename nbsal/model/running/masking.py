"""Forward passes with tokens hidden, cached for as long as the model stays the same.

A coalition is a subset of a text's tokens that stays visible. To remove a token, its row is run without it while the
other tokens keep their positions, so the cost depends on the visible tokens only. For models that measure distances by
index this differs from a token that nobody attends to; a self-test on the texts at hand detects that, and the attention
mask hides their tokens instead. Causal models read what precedes the first hidden token only once for each text (see
nbsal.model.running.prefixes), if that saves much, and if it gives the same for two coalitions that are run both ways.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nbsal.model.running import architecture, batching, dropping, memory, prefixes
from nbsal.model.running.dropping import DroppableLengths
from nbsal.model.subject import Subject
from nbsal.model.target import Target
from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.arrays import Flags
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.progress import Meter

if TYPE_CHECKING:
    from nbsal.model.running.text_cache import TextCache

WAYS = ("remove", "mask", "pad")
TEXT = "text"  # another way, of replies: the prompt without the hidden parts, tokenized anew (see `Hiding`)
TOKENS = 2048  # per batch: enough to fill a processor's vector units, few enough to stay in its caches
Coalitions = Flags


class MaskedModel:
    """Run a subject on texts with some of their tokens hidden; each coalition of a text is run only once.

    `way` says how a token is hidden: "remove" (no other token sees it), "mask" or "pad" (replaced by the mask or
    padding token, which the others do see), or the id of a replacement token.
    """

    def __init__(self, subject: Subject, way: str | int = "remove") -> None:
        self.subject = subject
        self.way = way
        self.filler = filler_id(subject, way)
        self.forwards = 0  # coalitions that the model was run on
        self._version: Any = None  # of the model, for the cached results and the results of the self-test
        self._follow_model()

    def _follow_model(self) -> None:
        """Drop the results of a model that has changed since."""
        version = self.subject.model_version
        if self._version == version:
            return
        self._cache: dict[tuple[Any, ...], _CachedRow] = {}
        self._first_position = architecture.first_position(self.subject.model)
        self._takes_positions = "position_ids" in inspect.signature(self.subject.model.forward).parameters
        # Outputs at positions need every position to be there.
        can_drop = self.way == "remove" and self._takes_positions and self.subject.task == "sequence"
        self._droppable = dropping.tested(self.subject, version) if can_drop else DroppableLengths(shortest_failed=0)
        self._reuses: bool | None = None  # whether texts are read once up to their first change; None: not asked yet
        self._version = version

    @property
    def _passes_positions(self) -> bool:
        return self._takes_positions and self._droppable.same_positions

    def logits(self, rows: Sequence[Row], coalitions: Sequence[Any], meter: Meter | None = None) -> list[Tensor]:
        """Logits of every text for each of its coalitions: one [coalition, ...] tensor per text, on the CPU.

        `coalitions` holds one [coalition, token] table per text, true where a token stays visible. `meter` counts
        coalitions; a cancelled call keeps its results in the cache, and the next call resumes from there.
        """
        return self._evaluate(rows, coalitions, [None] * len(rows), meter or Meter(None))

    def values(
        self, rows: Sequence[Row], coalitions: Sequence[Any], targets: Sequence[Target], meter: Meter | None = None
    ) -> list[Tensor]:
        """The explained number of every text for each of its coalitions: one [coalition] tensor per text.

        Only this number is cached, not the logits.
        """
        return self._evaluate(rows, coalitions, targets, meter or Meter(None))

    def keep_only(self, row: Row) -> None:
        """Drop the cached results of other texts; what the self-test has found stays."""
        self._cache = {key: cached for key, cached in self._cache.items() if cached.row.ids == row.ids}

    def inputs(self, rows: Sequence[Row], coalitions: Sequence[Any]) -> dict[str, Tensor]:
        """The model inputs for one coalition of each text, with hidden tokens left in place."""
        run_exclusively(self.subject, lambda: self._self_test(rows))
        pairs = zip(rows, coalitions, strict=True)
        return self._batch_inputs([self._mask_row(row, coalition, False) for row, coalition in pairs])

    def _evaluate(
        self,
        rows: Sequence[Row],
        coalitions: Sequence[Any],
        targets: Sequence[Target | None],
        meter: Meter,
    ) -> list[Tensor]:
        """Run the model on the coalitions that are not cached, then return all results."""
        self._follow_model()
        tables = [_check_coalitions(row, table) for row, table in zip(rows, coalitions, strict=True)]
        keys = [[packed.tobytes() for packed in np.packbits(table, axis=1)] for table in tables]
        cached_rows = [
            self._cache.setdefault((row.ids, row.types, row.mask, target), _CachedRow(row, target))
            for row, target in zip(rows, targets, strict=True)
        ]
        jobs: dict[tuple[int, bytes], _Job] = {}
        for cached, row_keys, table in zip(cached_rows, keys, tables, strict=True):
            for key, coalition in zip(row_keys, table, strict=True):
                if key not in cached.results:
                    jobs[id(cached), key] = _Job(cached, key, coalition)
        meter.step(sum(map(len, keys)) - len(jobs))

        def run() -> None:
            self._self_test([job.cached.row for job in jobs.values()])
            self._run_jobs(list(jobs.values()), meter)

        run_exclusively(self.subject, run)
        return [cached.stack(row_keys) for cached, row_keys in zip(cached_rows, keys, strict=True)]

    def _run_jobs(self, jobs: "list[_Job]", meter: Meter) -> None:
        """Run the model on every job, in batches of similar length; inputs are built one batch at a time."""
        for job in jobs:
            job.drops = self._droppable.holds(len(job.cached.row))
            job.size = len(self._visible(job.cached.row, job.coalition, job.drops)[1])
        if self.subject.causal and self._passes_positions:
            jobs = self._run_rests(jobs, meter)
        jobs.sort(key=lambda job: job.size)
        # A hidden token whose own position is read may attend to padding (DeBERTa): then no batch is padded.
        equal_lengths = self.way == "remove" and self.subject.task != "sequence"
        for batch in _job_batches(jobs, self.subject.unbatchable, equal_lengths):
            self._run_batch(batch, self._run, meter)

    def _run_batch(self, batch: "list[_Job]", run: "Callable[[Sequence[_MaskedRow]], Tensor]", meter: Meter) -> None:
        meter.check()
        masked_rows = [self._mask_row(job.cached.row, job.coalition, job.drops) for job in batch]
        parts = batching.run_in_halves(masked_rows, run)
        for job, logits in zip(batch, chain.from_iterable(parts), strict=True):
            # Positions after a text's own are padding of the batch.
            job.cached.store(job.key, logits[: job.size] if logits.ndim > 1 else logits)
        self.forwards += len(batch)
        meter.step(len(batch))

    def _run_rests(self, jobs: "list[_Job]", meter: Meter) -> "list[_Job]":
        """Run jobs that share much with their text from their first hidden token on; return the others."""
        padding = getattr(self.subject.model.config, "pad_token_id", None)
        for _, group in groupby(jobs, lambda job: id(job.cached)):
            text_jobs = list(group)
            for job in text_jobs:
                job.start = prefixes.shared_size(job.cached.row, job.coalition, padding)
            shared = prefixes.worth_sharing(text_jobs)
            if shared and self._reuses is not False:
                self._reuses = prefixes.can_reuse(self.subject) and self._run_after_text(shared, meter)
        return [job for job in jobs if job.key not in job.cached.results]

    def _run_after_text(self, jobs: "list[_Job]", meter: Meter) -> bool:
        row, run_batch = jobs[0].cached.row, partial(self._run_batch, meter=meter)
        whole = self._mask_row(row, np.ones(len(row), dtype=bool), False)
        largest = 1 if self.subject.unbatchable else TOKENS
        return prefixes.run_after_text(
            self.subject, row, whole, jobs, run_batch, self._run_after, _close, TOKENS, largest
        )

    def _run_after(self, batch: "Sequence[_MaskedRow]", cache: "TextCache | None", start: int) -> Tensor:
        """The logits of rows that begin with the first `start` tokens of a text, which the cache holds."""
        if cache is None:
            return self._run(batch)
        inputs = self._batch_inputs([masked.after(start) for masked in batch])
        logits = self.subject.logits(cache.put_before(inputs, start)).cpu()
        return cache.with_text(logits, start) if self.subject.task != "sequence" else logits

    def _mask_row(self, row: Row, coalition: Coalitions, drops: bool) -> "_MaskedRow":
        """The row with all tokens outside the coalition hidden; `drops` leaves them out of the input."""
        ids = tuple(token if stays else self.filler for token, stays in zip(row.ids, coalition.tolist(), strict=True))
        visible, places = self._visible(row, coalition, drops)
        mask = tuple(int(attended and shows) for attended, shows in zip(row.mask, visible.tolist(), strict=True))
        masked = replace(row, ids=ids, mask=mask).pick(places)
        return _MaskedRow(masked, tuple(self._first_position + place for place in places))

    def _visible(self, row: Row, coalition: Coalitions, drops: bool) -> tuple[Coalitions, Sequence[int]]:
        """Which tokens the model attends to, and the indices of the tokens in its input."""
        if self.way != "remove":
            return np.ones_like(coalition), range(len(row))
        visible = coalition.copy()
        required, end = self._required_position(row, coalition)
        visible[required] = True
        return visible, np.flatnonzero(visible[:end]).tolist() if drops else range(end)

    def _required_position(self, row: Row, coalition: Coalitions) -> tuple[int, int]:
        """The position that the model's head reads, and where the input ends.

        The token there cannot be removed; if it is hidden, a filler token replaces it.
        """
        if self.subject.pooling == "last":
            visible = np.flatnonzero(coalition & np.array(row.mask, dtype=bool))
            last = int(visible[-1]) if len(visible) else row.last
            return last, last + 1
        return 0, len(row)

    def _run(self, batch: "Sequence[_MaskedRow]", with_positions: bool | None = None) -> Tensor:
        return self.subject.logits(self._batch_inputs(batch, with_positions)).cpu()

    def _batch_inputs(self, batch: "Sequence[_MaskedRow]", with_positions: bool | None = None) -> dict[str, Tensor]:
        encoded = Encoded([masked.row for masked in batch], self.subject.text_encoder.pad_id)
        memory.check_forward(self.subject, len(encoded), encoded.longest)
        inputs = self.subject.inputs(encoded)
        if self._passes_positions if with_positions is None else with_positions:
            longest = encoded.longest
            padded = [[*masked.positions, *[0] * (longest - len(masked.positions))] for masked in batch]
            inputs["position_ids"] = torch.as_tensor(padded, device=self.subject.device)
        return inputs

    def _self_test(self, rows: Sequence[Row]) -> None:
        """Check on these texts that our position ids are the model's, and that dropping tokens is exact.

        A result for one length holds for all shorter ones: test the longest text first, then the middle one. The
        longest is made longer, for a text that is being typed, whose every letter would need another test.
        """
        by_length = {len(row): row for row in rows if not self._droppable.is_tested(len(row))}
        if by_length:
            longer = dropping.longer(by_length[max(by_length)], self.subject.max_length)
            by_length.setdefault(len(longer), longer)
        untested = sorted(by_length)
        if untested and not self._positions_match(by_length[untested[-1]]):
            self._droppable.same_positions, self._droppable.shortest_failed, untested = False, 0, []
        next_index = -1
        while untested:
            length = untested[next_index]
            self._droppable.add(length, self._drops_exactly(by_length[length]))
            untested = [length for length in untested if not self._droppable.is_tested(length)]
            next_index = len(untested) // 2

    def _positions_match(self, row: Row) -> bool:
        """True if our position ids give the same logits as the model's default ones."""
        unmasked = _MaskedRow(row, self._mask_row(row, np.ones(len(row), dtype=bool), False).positions)
        return _close(self._run([unmasked]), self._run([unmasked], with_positions=False))

    def _drops_exactly(self, row: Row) -> bool:
        """True if dropping tokens gives the same logits as masking them in place.

        Tested twice: with every other token hidden, and with all but the ends hidden.
        """
        alternate, ends = np.ones((2, len(row)), dtype=bool)
        alternate[list(row.content[1::2])] = False
        ends[list(row.content[1:-1])] = False
        for coalition in (alternate, ends):
            dropped, in_place = (self._mask_row(row, coalition, drops) for drops in (True, False))
            if not _close(self._run([dropped]), self._run([in_place])):
                return False
        return True


@dataclass(frozen=True)
class _MaskedRow:
    """A row with tokens hidden, and the position id of each token that is left."""

    row: Row
    positions: tuple[int, ...]

    def after(self, start: int) -> "_MaskedRow":
        """The row without its first tokens."""
        return _MaskedRow(self.row.pick(range(start, len(self.row))), self.positions[start:])


@dataclass
class _CachedRow:
    """Cached results of one row: logits or the target's value per coalition, as bytes, which take less than tensors."""

    row: Row
    target: Target | None
    results: dict[bytes, bytes] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32

    def store(self, key: bytes, logits: Tensor) -> None:
        """Cache the result for one coalition."""
        result = logits if self.target is None else self.target.value(logits)
        self.shape, self.dtype = tuple(result.shape), result.dtype
        self.results[key] = result.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    def stack(self, keys: Sequence[bytes]) -> Tensor:
        """The results for these coalitions as a [coalition, ...] tensor."""
        joined = bytearray(b"".join(self.results[key] for key in keys))
        return torch.frombuffer(joined, dtype=self.dtype).reshape(len(keys), *self.shape)


@dataclass(slots=True)
class _Job:
    """A coalition to run: whether its hidden tokens are dropped, how many tokens are left, and how many come first
    that are those of the whole text."""

    cached: _CachedRow
    key: bytes
    coalition: Coalitions
    drops: bool = False
    size: int = 0
    start: int = 0


def run_exclusively(subject: Subject, run: Callable[[], None]) -> None:
    """Call `run` while no other thread uses the model, without gradients and dropout."""

    def in_inference_mode() -> None:
        with batching.memory_errors(), torch.inference_mode():
            run()

    subject.exclusively(in_inference_mode)


def _close(first: Tensor, second: Tensor) -> bool:
    """True if two logits are equal except for rounding."""
    tolerance = 1e-5 if first.dtype in (torch.float32, torch.float64) else 1e-2
    scale = max(1.0, float(first.abs().max()))
    return bool(torch.isclose(first, second, rtol=0, atol=tolerance * scale).all())


def _job_batches(jobs: Sequence[_Job], unbatchable: bool, equal_lengths: bool) -> Iterator[list[_Job]]:
    """Group jobs, sorted by length, into batches of at most `TOKENS` tokens, or of jobs of equal length.

    A longer text starts a new batch once the current one is large enough, since all others would be padded to it.
    """

    def is_full(batch: list[_Job], job: _Job) -> bool:
        pads_too_much = job.size > batch[0].size and (equal_lengths or len(batch) * job.size > TOKENS // 4)
        return unbatchable or pads_too_much or (len(batch) + 1) * job.size > TOKENS

    return batching.fill_batches(jobs, is_full)


def _check_coalitions(row: Row, coalitions: Any) -> Coalitions:
    table = np.asarray(coalitions, dtype=bool)
    size = len(row)
    if table.ndim != 2 or table.shape[1] != size:
        message = f"Coalitions must have one entry for each token, [coalition, {size}], not the shape {table.shape}."
        raise InputError(message, argument="coalitions", value=coalitions)
    return table


def filler_id(subject: Subject, way: str | int) -> int:
    """The id of the token that replaces a hidden one."""
    tokenizer, size = subject.tokenizer, subject.model.config.vocab_size
    if isinstance(way, int) and not isinstance(way, bool):
        if not 0 <= way < size:
            message = f"way={way} is not a token id of this model. Ids run from 0 to {size - 1}."
            raise InputError(message, argument="way", value=way)
        return way
    if way not in WAYS:
        ways = [*WAYS, TEXT] if subject.task in ("next-token", "reply") and way != TEXT else WAYS
        raise UnknownName("way", way, [*ways, "a token id"], "", f"Choose {', '.join(map(repr, ways))} or a token id.")
    if way == "pad":
        return subject.text_encoder.pad_id
    mask = getattr(tokenizer, "mask_token_id", None)
    if way == "mask" and mask is None:
        message = f"way='mask', but {subject.name} has no mask token. Choose 'remove', 'pad' or a token id."
        raise InputError(message, argument="way", value=way)
    others = (getattr(tokenizer, f"{name}_token_id", None) for name in ("unk", "eos", "bos"))
    return next((token_id for token_id in (mask, *others) if token_id is not None), 0)
