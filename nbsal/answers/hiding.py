"""The numbers of all tokens of a reply with units of its sources hidden; no subset is run twice."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbsal.answers import sides
from nbsal.answers.reading import Reading, Unit
from nbsal.errors import ModelError
from nbsal.model import architecture, batching, restore
from nbsal.model.masking import TOKENS
from nbsal.model.subject import Subject
from nbsal.model.target import number_of
from nbsal.progress import Meter

Subsets = NDArray[np.bool_]  # [subset, unit], true where a unit stays
Floats = NDArray[np.float64]
TOLERANCE = 1e-4  # of a number, between tokens that are left out and tokens that nobody attends to


class Hiding:
    """Run a model on a prompt with a reply, some units of the prompt hidden from all other tokens.

    Hidden tokens are left out, and the others keep their positions. Where a self-test shows that the model measures
    distances in another way, they stay in place and nobody attends to them; so do those of an encoder.
    """

    def __init__(self, subject: Subject, reading: Reading, units: Sequence[Unit], number: str = "logprob") -> None:
        self.subject = subject
        self.reading = reading
        self.units = list(units)
        self.number = number
        self.forwards = 0  # subsets that the model was run on
        self._values: dict[bytes, Floats] = {}
        self._first_position = architecture.first_position(subject.model)
        # Whether hidden tokens are left out; None: not tested yet.
        self._drops: bool | None = False if reading.prompt.source_size else None

    @property
    def way(self) -> str:
        """How tokens are hidden, for the provenance."""
        return "masked in place" if self._drops is False else "left out, positions kept"

    def values(self, subsets: Any, meter: Meter | None = None) -> Floats:
        """The numbers of every token of the reply for each subset of units, [subset, reply token]."""
        table: Subsets = np.asarray(subsets, dtype=bool)
        keys = [row.tobytes() for row in table]
        missing = {key: row for key, row in zip(keys, table, strict=True) if key not in self._values}
        if meter is not None:
            meter.step(len(keys) - len(missing))

        def run() -> None:
            with (
                batching.memory_errors(),
                torch.inference_mode(False),
                torch.no_grad(),
                architecture.eval_mode(self.subject.model),
            ):
                self._run_missing(missing, meter)

        if missing:
            restore.exclusively(self.subject.model, run)
        return np.stack([self._values[key] for key in keys])

    def cached_drop(self, unit: int) -> Floats | None:
        """By how much each token's number drops without a unit; None if the model was not run on both."""
        every = np.ones(len(self.units), dtype=bool)
        without = every.copy()
        without[unit] = False
        both = [self._values.get(subset.tobytes()) for subset in (every, without)]
        return None if both[0] is None or both[1] is None else both[0] - both[1]

    def _run_missing(self, missing: dict[bytes, Subsets], meter: Meter | None) -> None:
        if self._drops is None:
            self._drops = self._leaves_out_exactly()
        places = {key: self._kept(row) for key, row in missing.items()}
        ordered = sorted(places.items(), key=lambda item: len(item[1]))
        for batch in batching.fill_batches(ordered, self._is_full):
            if meter is not None:
                meter.check()
            numbers = self._run([kept for _, kept in batch], self._drops)
            self._values |= {key: values for (key, _), values in zip(batch, numbers, strict=True)}
            self.forwards += len(batch)
            if meter is not None:
                meter.step(len(batch))

    def _is_full(self, batch: list[Any], item: Any) -> bool:
        longest = len(item[1]) if self._drops else len(self.reading.row)
        return self.subject.unbatchable or (len(batch) + 1) * longest > TOKENS

    def _kept(self, subset: Subsets) -> NDArray[np.int64]:
        """The positions that stay; the first one always does, since something must be read before the reply.

        In a source this is needed only where nothing else stays.
        """
        stays = np.ones(len(self.reading.row), dtype=bool)
        for unit, kept in zip(self.units, subset, strict=True):
            stays[list(unit.tokens)] = kept
        stays[0] |= not stays[: self.reading.prompt.source_size].any()
        return np.flatnonzero(stays)

    def _run(self, rows: Sequence[NDArray[np.int64]], drops: bool) -> list[Floats]:
        """The numbers of the reply with only some positions visible, for each row of positions."""
        if self.reading.prompt.source_size:
            return sides.numbers_of_reply(self.subject, self.reading, rows, self.number)
        size, start = len(self.reading.row), self.reading.start
        ids = np.array(self.reading.row.ids)
        inputs = [kept if drops else np.arange(size) for kept in rows]
        longest = max(map(len, inputs))
        device, pad = self.subject.device, self.subject.text_encoder.pad_id
        arrays = {name: np.zeros((len(rows), longest), dtype=np.int64) for name in ("attention_mask", "position_ids")}
        arrays["input_ids"] = np.full((len(rows), longest), pad)
        reads = np.zeros((len(rows), size - start), dtype=np.int64)
        for i, (kept, places) in enumerate(zip(rows, inputs, strict=True)):
            arrays["input_ids"][i, : len(places)] = ids[places]
            arrays["attention_mask"][i, : len(places)] = np.isin(places, kept)
            arrays["position_ids"][i, : len(places)] = self._first_position + places
            # Each token of the reply is read at the last visible position before it.
            before = kept[np.searchsorted(kept, np.arange(start, size)) - 1]
            reads[i] = np.searchsorted(places, before)
        if not drops:
            del arrays["position_ids"]
        logits = self.subject.logits({name: torch.as_tensor(a, device=device) for name, a in arrays.items()})
        outcomes = torch.as_tensor(ids[start:], device=device).expand(len(rows), -1)
        at = torch.as_tensor(reads, device=device)
        chosen = logits[torch.arange(len(rows), device=device)[:, None], at]
        numbers = number_of(chosen, outcomes, self.number)
        if bool(numbers.isnan().any()):
            message = (
                f"With so much hidden, a token of {self.subject.name} has nothing to attend to. Hide smaller units."
            )
            raise ModelError(message, part="attention mask")
        return list(numbers.double().cpu().numpy())

    def _leaves_out_exactly(self) -> bool:
        """Whether leaving out every other unit gives the numbers that masking it in place does."""
        subset = np.arange(len(self.units)) % 2 == 0
        kept = self._kept(subset)
        try:
            left_out, in_place = (self._run([kept], drops)[0] for drops in (True, False))
        except TypeError:  # a model without position ids
            return False
        scale = max(1.0, float(np.abs(in_place).max()))
        return bool(np.abs(left_out - in_place).max() <= TOLERANCE * scale)
