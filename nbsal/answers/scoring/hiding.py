"""The numbers of all tokens of a reply with units of its sources hidden; no subset is run twice."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbsal.answers.prompt.prompts import encode, renderer
from nbsal.answers.prompt.reading import BEST, Prompt, Reading, Unit
from nbsal.answers.prompt.sources import cut_spans
from nbsal.answers.scoring import served
from nbsal.model.running import architecture, batching, memory, prefixes
from nbsal.model.running.masking import TEXT, TOKENS, filler_id, run_exclusively
from nbsal.model.served.queries import Query
from nbsal.model.served.server import Score
from nbsal.model.subject import Subject
from nbsal.model.target import AGREEMENT, DIVERGENCE, divergence, log_odds, number_of
from nbsal.model.text.tokens import Span
from nbsal.support.arrays import Flags, Floats
from nbsal.support.errors import InputError, ModelError
from nbsal.support.progress import Meter

if TYPE_CHECKING:
    from nbsal.model.running.text_cache import TextCache

Subsets = Flags  # [subset, unit], true where a unit stays
Places = NDArray[np.int64]
TOLERANCE = 1e-4  # of a number, between tokens that are left out and tokens that nobody attends to
EXACT = 1e-5  # of a number, between a subset read as a whole and after what it shares with the text
# Numbers of each token that are stored for a subset, before the id of the likeliest one; the last is not always needed.
STORED = ("logprob", "logit", DIVERGENCE)


@dataclass(frozen=True)
class _Input:
    """What the model reads for one subset, and the places there at which the tokens of the reply are read.

    `positions` are those of the tokens where they are not simply counted.
    """

    ids: Places
    visible: Places
    reads: Places
    positions: Places | None = None

    def shared_size(self, text: "_Input") -> int:
        """How many leading tokens are those of the whole text, and not read."""
        size = min(len(self.ids), len(text.ids), int(self.reads[0]), int(text.reads[0]))
        differs = (self.ids[:size] != text.ids[:size]) | (self.visible[:size] != text.visible[:size])
        if self.positions is not None and text.positions is not None:
            differs |= self.positions[:size] != text.positions[:size]
        return int(differs.argmax()) if differs.any() else size

    def after(self, start: int) -> "_Input":
        """What comes after the first tokens."""
        positions = None if self.positions is None else self.positions[start:]
        return _Input(self.ids[start:], self.visible[start:], self.reads - start, positions)


@dataclass(frozen=True)
class _Job:
    """What the model reads for one subset, and how many leading tokens are those of the whole text."""

    key: bytes
    inputs: _Input
    start: int

    @property
    def size(self) -> int:
        return len(self.inputs.ids)


def logits_at(subject: Subject, inputs: dict[str, Any], at: Places) -> torch.Tensor:
    """The logits at some positions of each text, [text, position]; where the model can, it computes no others."""
    if "logits_to_keep" in inspect.signature(subject.model.forward).parameters:
        places = np.unique(at)
        at = np.searchsorted(places, at)
        inputs = inputs | {"logits_to_keep": torch.as_tensor(places, device=subject.device)}
    logits = subject.logits(inputs)
    return logits[torch.arange(len(at), device=logits.device)[:, None], torch.as_tensor(at, device=logits.device)]


class Hiding:
    """Run a model on a prompt with a reply, some units of the prompt hidden; each subset of units is run only once.

    `way` says how a unit is hidden. "remove": no other token sees it. Hidden tokens are left out, and the others keep
    their positions; where a self-test shows that the model measures distances in another way, and in an encoder beside
    a decoder, they stay in place and nobody attends to them. "text": the prompt is written, rendered and tokenized
    without it. "mask", "pad" or the id of a token: that token stands in its place. A model behind a server reads whole
    prompts only, so "remove" is "text" there.
    """

    def __init__(
        self,
        subject: Subject,
        reading: Reading,
        units: Sequence[Unit],
        way: str | int = "remove",
        batch_size: int | None = None,
    ) -> None:
        self.subject = subject
        self.reading = reading
        self.units = list(units)
        self.batch_size = batch_size  # the most subsets that are run together; None: as many as are quick
        self.forwards = 0  # subsets that the model was run on
        self.server = served.server_of(subject)
        self.setting = way = served.way(self.server, way)
        self._filler = None if way in ("remove", TEXT) else filler_id(subject, way)
        if way == TEXT:
            _check_shortens(reading.prompt, self.units)
        self._version: Any = None  # of the model, for the cached results and the result of the self-test
        self._follow_model()

    def _follow_model(self) -> None:
        """Drop the results of a model that has changed since."""
        version = self.subject.model_version
        if self._version == version:
            return
        self._results: dict[bytes, Floats] = {}  # [stored number, reply token]
        self._whole: torch.Tensor | None = None  # what would be said with nothing hidden, [reply token, probability]
        self._whole_scores: list[Score] | None = None  # the same, of a server
        self._first_position = architecture.first_position(self.subject.model)
        # Whether hidden tokens are left out; None: not tested yet.
        self._drops: bool | None = False if self.reading.prompt.source_size else None
        self._reuses: bool | None = None  # whether the text is read once up to the first change; None: not asked yet
        self._version = version

    @property
    def way(self) -> str:
        """How units are hidden, for the provenance."""
        if self._filler is not None:
            return f"replaced by the token {self.subject.tokenizer.convert_ids_to_tokens(self._filler)}"
        if self.setting == TEXT:
            return "cut out of the text, which is tokenized anew"
        return "masked in place" if self._drops is False else "left out, positions kept"

    def values(self, subsets: Any, meter: Meter | None = None, number: str = "logprob") -> Floats:
        """The numbers of every token of the reply for each subset of units, [subset, reply token].

        A divergence, from the predictions with nothing hidden, counts as negative: hiding lowers it like the others.
        """
        self._follow_model()
        if number == AGREEMENT:
            return served.agreement(self.server, self.reading, [self.query(row) for row in np.asarray(subsets)], meter)
        if number == DIVERGENCE and self._whole is None and self._whole_scores is None:
            self._results.clear()
            run_exclusively(self.subject, self._read_whole)
        table: Subsets = np.asarray(subsets, dtype=bool)
        keys = [row.tobytes() for row in table]
        missing = {key: row for key, row in zip(keys, table, strict=True) if key not in self._results}
        meter = meter or Meter(None)
        meter.step(len(keys) - len(missing))
        if missing:
            run_exclusively(self.subject, lambda: self._run_missing(missing, meter))
        stored = np.stack([self._results[key] for key in keys], 1)
        if number == "logit-prob":
            return log_odds(torch.from_numpy(stored[STORED.index("logprob")])).numpy()
        values: Floats = stored[-1 if number == BEST else STORED.index(number)]
        return values

    def with_reading(self, reading: Reading) -> "Hiding":
        """The same hiding in another reply to the same prompt."""
        return Hiding(self.subject, reading, self.units, self.setting, self.batch_size)

    def with_units(self, units: Sequence[Unit]) -> "Hiding":
        """The same hiding of other units."""
        return Hiding(self.subject, self.reading, units, self.setting, self.batch_size)

    def cached_drop(self, unit: int) -> Floats | None:
        """By how much each token's log-probability drops without a unit; None if the model was not run on both."""
        subsets = np.ones((2, len(self.units)), dtype=bool)
        subsets[1, unit] = False
        if any(subset.tobytes() not in self._results for subset in subsets):
            return None
        drop: Floats = np.subtract(*self.values(subsets))
        return drop

    def query(self, subset: Subsets) -> Query:
        """What a server is asked for a subset."""
        prompt, reply = self.reading.prompt, self.reading.reply_ids
        assert self.server is not None and prompt.origin is not None, "other models are run"
        ids = self._input(subset).ids.tolist()
        request = cut_spans(prompt.origin[0], _spans_by_source(prompt, self._hidden(subset)))
        return served.query_of(self.server, request, ids[: len(ids) - len(reply)], reply)

    def _ask(self, missing: dict[bytes, Subsets], meter: Meter) -> None:
        """Ask a server about some subsets."""
        assert self.server is not None, "other models are run"
        scores = self.server.scores([self.query(row) for row in missing.values()], meter)
        for key, row in zip(missing, scores, strict=True):
            self._results[key] = served.numbers(self.server, row, self.reading.reply_ids, self._whole_scores)
        self.forwards += len(missing)

    def _read_whole(self) -> None:
        """Read what the model would say with nothing hidden."""
        if self.server is not None:
            (self._whole_scores,) = self.server.scores([served.whole(self.server, self.reading)], Meter(None))
            return
        self._whole = self._logits([self._input(np.ones(len(self.units), dtype=bool))])[0].double().softmax(-1)
        self.forwards += 1

    def _run_missing(self, missing: dict[bytes, Subsets], meter: Meter) -> None:
        if self.server is not None:
            self._ask(missing, meter)
            return
        if self._drops is None and self.setting == "remove":
            self._drops = self._leaves_out_exactly()
        whole = self._input(np.ones(len(self.units), dtype=bool))
        jobs = [_Job(key, inputs := self._input(row), inputs.shared_size(whole)) for key, row in missing.items()]
        run_batch = partial(self._run_batch, meter=meter)
        shared = prefixes.worth_sharing(jobs) if self.subject.causal and self._reuses is not False else []
        if shared:
            self._reuses = prefixes.can_reuse(self.subject) and prefixes.run_after_text(
                self.subject, self.reading.row, whole, shared, run_batch, self._run, _continues, TOKENS, self._largest
            )

        def is_full(batch: list[_Job], job: _Job) -> bool:
            return (len(batch) + 1) * job.size > TOKENS or len(batch) == self._largest

        jobs = sorted((job for job in jobs if job.key not in self._results), key=lambda job: job.size)
        for batch in batching.fill_batches(jobs, is_full):
            run_batch(batch, self._run)

    def _run_batch(self, batch: Sequence[_Job], run: Callable[[Sequence[_Input]], list[Floats]], meter: Meter) -> None:
        meter.check()
        parts = batching.run_in_halves([job.inputs for job in batch], run)
        results = [numbers for part in parts for numbers in part]
        if np.isnan(results).any():
            message = (
                f"With so much hidden, a token of {self.subject.name} has nothing to attend to. Hide smaller units."
            )
            raise ModelError(message, part="attention mask")
        self._results |= {job.key: numbers for job, numbers in zip(batch, results, strict=True)}
        self.forwards += len(batch)
        meter.step(len(batch))

    @property
    def _largest(self) -> int:
        """The most subsets of a batch."""
        return 1 if self.subject.unbatchable else self.batch_size or TOKENS

    def _input(self, subset: Subsets) -> _Input:
        """What the model reads for a subset."""
        if self.setting == TEXT:
            return self._visible(_ids_without(self.subject, self.reading.prompt, self._hidden(subset)))
        stays = np.ones(len(self.reading.row), dtype=bool)
        for unit, shows in zip(self.units, subset, strict=True):
            stays[list(unit.tokens)] = shows
        if self._filler is None:
            return self._removed(stays, bool(self._drops))
        filled = np.where(stays, self.reading.row.ids, self._filler)
        return self._visible(filled[: self.reading.prompt.source_size or self.reading.start].tolist())

    def _hidden(self, subset: Subsets) -> list[Unit]:
        """The units that a subset hides."""
        return [unit for unit, stays in zip(self.units, subset, strict=True) if not stays]

    def _visible(self, prompt: Sequence[int]) -> _Input:
        """A prompt of these tokens, all of which the model sees, and the reply, which a decoder reads by itself."""
        encoded = bool(self.reading.prompt.source_size)
        ids = np.array([*prompt, *([] if encoded else self.reading.reply_ids)])
        reads = self._decoder_reads() if encoded else np.arange(len(prompt), len(ids)) - 1
        return _Input(ids, np.ones_like(ids), reads)

    def _removed(self, stays: Flags, drops: bool) -> _Input:
        """Some positions visible; the first one always is, since something must be read before the reply."""
        stays, ids = stays.copy(), np.array(self.reading.row.ids)
        if size := self.reading.prompt.source_size:
            stays[0] |= not stays[:size].any()
            return _Input(ids[:size], stays[:size].astype(np.int64), self._decoder_reads())
        stays[0] = True
        kept = np.flatnonzero(stays)
        places = kept if drops else np.arange(len(stays))
        # Each token of the reply is read at the last visible position before it.
        before = kept[np.searchsorted(kept, np.arange(self.reading.start, len(stays))) - 1]
        positions = self._first_position + places if drops else None
        return _Input(ids[places], stays[places].astype(np.int64), np.searchsorted(places, before), positions)

    def _decoder_reads(self) -> Places:
        """Where a decoder, which reads the reply whatever is hidden, predicts its tokens."""
        return np.arange(len(self.reading.reply_ids)) + self.reading.position(0)

    def _run(self, batch: Sequence[_Input], cache: "TextCache | None" = None, start: int = 0) -> list[Floats]:
        """The stored numbers of the reply for each input, [stored number, reply token].

        A cache holds the first `start` tokens, which are not read again.
        """
        logits = self._logits(batch if cache is None else [inputs.after(start) for inputs in batch], cache, start)
        outcomes = torch.tensor(self.reading.reply_ids, device=logits.device).expand(len(batch), -1)
        numbers = [number_of(logits, outcomes, number).double() for number in STORED[:2]]
        if self._whole is not None:  # of one text after the other, since each has the vocabulary's size
            numbers.append(-torch.stack([divergence(each, self._whole) for each in logits]))
        return list(torch.stack([*numbers, logits.argmax(-1).double()], 1).cpu().numpy())

    def _logits(self, batch: Sequence[_Input], cache: "TextCache | None" = None, start: int = 0) -> torch.Tensor:
        """The logits that predict the reply for each input, [input, reply token, vocabulary]."""
        longest, device = max(len(inputs.ids) for inputs in batch), self.subject.device
        memory.check_forward(self.subject, len(batch), longest)

        def padded(rows: Sequence[Places], filler: int) -> torch.Tensor:
            table = np.full((len(rows), longest), filler, dtype=np.int64)
            for at, row in enumerate(rows):
                table[at, : len(row)] = row
            return torch.as_tensor(table, device=device)

        # Positions without an attention mask would be read as those of several texts in one row.
        arguments = {
            "input_ids": padded([inputs.ids for inputs in batch], self.subject.text_encoder.pad_id),
            "attention_mask": padded([inputs.visible for inputs in batch], 0),
        }
        positions = [inputs.positions for inputs in batch if inputs.positions is not None]
        if positions:
            arguments["position_ids"] = padded(positions, 0)
        if self.reading.prompt.source_size:
            ids = torch.tensor(self.reading.row.ids[self.reading.prompt.source_size :], device=device)
            ids = ids.expand(len(batch), -1)
            arguments |= {"decoder_input_ids": ids, "decoder_attention_mask": torch.ones_like(ids)}
        if cache is not None:
            arguments = cache.put_before(arguments, start)
        return logits_at(self.subject, arguments, np.stack([inputs.reads for inputs in batch]))

    def _leaves_out_exactly(self) -> bool:
        """Whether leaving out every other unit, and all of them, gives the numbers that masking in place does."""
        for hidden in (self.units[::2], self.units):
            stays = np.ones(len(self.reading.row), dtype=bool)
            stays[[token for unit in hidden for token in unit.tokens]] = False
            try:
                (left_out,), (in_place,) = (self._run([self._removed(stays, drops)]) for drops in (True, False))
            except TypeError:  # a model without position ids
                return False
            if not _close(left_out[:-1], in_place[:-1], TOLERANCE):
                return False
        return True


def _close(first: Floats, second: Floats, tolerance: float) -> bool:
    """True if numbers are equal except for rounding; False where a token sees nothing."""
    return bool(np.abs(first - second).max() <= tolerance * np.fmax(1.0, np.abs(second).max()))


def _continues(whole: Sequence[Floats], after: Sequence[Floats]) -> bool:
    """True if the numbers of one subset are equal, read as a whole and after what it shares with the text."""
    return _close(after[0][:-1], whole[0][:-1], EXACT)


def _check_shortens(prompt: Prompt, units: Sequence[Unit]) -> None:
    """Refuse units whose characters are not known, because the template rewrote them."""
    rewritten = next((unit for unit in units if prompt.sources[unit.source].status == "rewritten"), None)
    if rewritten is not None:
        message = f'The template rewrote {rewritten.name}, so way="text" cannot cut it out. Use way="remove".'
        raise InputError(message, argument="way", value="text")


def _ids_without(subject: Subject, prompt: Prompt, units: Sequence[Unit]) -> tuple[int, ...]:
    """The tokens of the prompt that a user would send without those units; never none at all."""
    assert prompt.origin is not None, "prompts from files have no model"
    request, template, tools, settings = prompt.origin
    shorter = cut_spans(request, _spans_by_source(prompt, units))
    chat = shorter.messages is not None
    text = renderer(subject, shorter, template, tools, settings)(shorter.texts) if chat else shorter.texts[0]
    ids = encode(subject.tokenizer, text, "asked", add_special_tokens=not chat)["input_ids"]
    return tuple(ids) or prompt.ids[:1]


def _spans_by_source(prompt: Prompt, units: Sequence[Unit]) -> dict[int, list[Span]]:
    """The characters of units by source; a message that holds documents takes them along."""
    spans: dict[int, list[Span]] = {}
    for unit in units:
        spans.setdefault(unit.source, []).append(unit.span)
        for number in {prompt.owners[token] for token in unit.tokens} - {unit.source}:
            spans.setdefault(number, []).append((0, len(prompt.sources[number].text)))
    return spans
