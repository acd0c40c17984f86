"""A model run on texts with parts left out; results are cached for as long as the model stays the same.

A subset is a set of a text's tokens that stays visible. To remove a token, its text is run without it while the other
tokens keep their positions, so the cost depends on the visible tokens only. Causal models read what precedes the first
hidden token only once for each text (see nbsal.ablation.reuse), if that saves much. Whether both give what reading
everything gives is tested once for a model and a length.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbsal.ablation import reuse
from nbsal.ablation.known import known_of
from nbsal.ablation.served import ServedText
from nbsal.ablation.texts import AblatedText, Input
from nbsal.model.loading.stand_in import StandIn
from nbsal.model.running import batching, memory
from nbsal.model.running.layers import keeps_logits, logits_at
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded
from nbsal.support.arrays import Flags
from nbsal.support.errors import InputError, ModelError, OutOfMemory
from nbsal.support.progress import Meter

TOKENS = 2048  # per batch: enough to fill a processor's vector units, few enough to stay in its caches
TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 1e-2}  # of outputs that are equal but for rounding; else 1e-5
Text = AblatedText | ServedText
Subsets = Sequence[tuple[bytes, Flags]]  # each with its key in the results of a text


class Ablation:
    """Run a subject on texts with some of their tokens hidden; each subset of a text is run only once.

    `batch_size` is how many subsets are run together at most; None: as many as are quick.
    """

    def __init__(self, subject: Subject, batch_size: int | None = None) -> None:
        self.subject = subject
        self.batch_size = batch_size
        self.forwards = 0  # subsets that the model was run on
        self._results: dict[Any, _Results] = {}  # by the source of a text
        self._texts: dict[Any, Any] = {}  # what was computed of whole texts, by what was read
        self._keeps_texts = False
        self._version: Any = None  # of the model that gave all this

    def values(self, texts: Sequence[Text], tables: Sequence[Any], meter: Meter | None = None) -> list[Tensor]:
        """What is read of every text for each of its subsets: one [subset, ...] tensor for each text, on the CPU.

        `tables` holds one [subset, token] table for each text, true where a token stays visible. `meter` counts
        subsets; a cancelled call keeps its results in the cache, and the next call resumes from there.
        """
        keyed = [_keyed(text, table) for text, table in zip(texts, tables, strict=True)]
        found = self.subject.exclusively(partial(self._find, texts, keyed, meter or Meter(None)))
        return [results.stack(subsets) for results, subsets in zip(found, keyed, strict=True)]

    def holds(self, text: Text, table: Any) -> bool:
        """Whether the model was run on those subsets of a text before."""
        results = self._results.get(text.source)
        if results is None or self._version != self.subject.model_version:
            return False
        return all(results.holds(key) for key, _ in _keyed(text, table))

    def leaves_out(self, text: Text) -> bool:
        """Whether hidden tokens are left out of a text that was run."""
        return text.may_leave_out and known_of(self.subject).leaving_out.holds(len(text.row))

    @contextmanager
    def reading_once(self) -> Iterator[None]:
        """Until the block ends, keep what was computed of whole texts: the keys and values of all their tokens."""
        self._keeps_texts = True
        try:
            yield
        finally:
            self._keeps_texts, self._texts = False, {}

    def outputs(self, text: AblatedText) -> Tensor:
        """The outputs of a whole text, after which what is hidden from it goes on, if that is proven to be exact."""
        return self.subject.exclusively(partial(self._run_whole, text))

    def keep_only(self, ids: Sequence[int]) -> None:
        """Drop the cached results of other texts than one of these tokens."""
        self._results = {source: each for source, each in self._results.items() if each.text.row.ids == ids}

    def inputs(self, texts: Sequence[AblatedText], subsets: Sequence[Any]) -> dict[str, Tensor]:
        """The model inputs for one subset of each text, with hidden tokens left in place."""
        return self._batch([text.input(subset, False) for text, subset in zip(texts, subsets, strict=True)])

    @memory.memory_errors()
    @torch.inference_mode()
    def _run_whole(self, text: AblatedText) -> Tensor:
        self._follow_model()
        proven = self._keeps_texts and known_of(self.subject).reuse.holds(len(text.row))
        outputs = self._read(text)[1] if proven else None
        return (self._outputs([self._whole(text)]) if outputs is None else outputs)[0]

    @memory.memory_errors()
    @torch.inference_mode()
    def _find(self, texts: Sequence[Text], keyed: Sequence[Subsets], meter: Meter) -> "list[_Results]":
        """The results of texts, after running what is missing."""
        self._follow_model()
        found, missing = list[_Results](), dict[int, dict[bytes, _Variant]]()  # by text and subset
        for text, subsets in zip(texts, keyed, strict=True):
            results = self._results.setdefault(text.source, _Results(text))
            found.append(results)
            for key, subset in subsets:
                if not results.holds(key):
                    missing.setdefault(id(results), {})[key] = _Variant(text, results, key, subset)
        meter.step(sum(map(len, keyed)) - sum(map(len, missing.values())))
        to_run = []
        for variants in map(list, map(dict.values, missing.values())):
            if isinstance(variants[0].text, ServedText):
                self._ask(variants, meter)
            else:
                to_run.append(variants)
        self._run_all(to_run, meter)
        return found

    def _follow_model(self) -> None:
        """Drop what a model has given that has changed since."""
        if (version := self.subject.model_version) != self._version:
            self._results, self._texts, self._version = {}, {}, version

    def _ask(self, variants: "Sequence[_Variant]", meter: Meter) -> None:
        """Ask a server about subsets of one text."""
        text, results = variants[0].text, variants[0].results
        assert isinstance(text, ServedText)
        if text.compares and results.whole is None:
            results.whole = text.whole()
        for variant, numbers in zip(
            variants, text.ask([variant.subset for variant in variants], results.whole, meter), strict=True
        ):
            results.store(variant.key, numbers)
        self.forwards += len(variants)

    def _run_all(self, groups: "Sequence[list[_Variant]]", meter: Meter) -> None:
        """Run the model on every variant, in batches of similar length; each group is of one text."""
        self._test([group[0].text for group in groups])
        for group in groups:
            text = group[0].text
            leaves_out = self.leaves_out(text)
            for variant in group:
                variant.input = text.input(variant.subset, leaves_out)
            if text.compares and group[0].results.whole is None:
                group[0].results.whole = text.whole(self._outputs([self._whole(text)])[0])
                self.forwards += 1
            self._run_after_text(group, meter)
        variants = [variant for variant in chain(*groups) if not variant.results.holds(variant.key)]

        def is_full(batch: list[_Variant], variant: _Variant) -> bool:
            padding = sum(variant.size - other.size for other in batch)
            pads = padding > (reuse.MAX_WASTED if variant.text.pads else 0)
            return pads or (len(batch) + 1) * variant.size > TOKENS or len(batch) >= self._largest

        for batch in batching.fill_batches(sorted(variants, key=attrgetter("size")), is_full):
            self._run(batch, meter)

    def _run(self, batch: "Sequence[_Variant]", meter: Meter, cache: Any = None, start: int = 0) -> None:
        """Run some variants together; a cache holds their first `start` tokens, which are not read again."""
        meter.check()

        def numbers(part: Sequence[_Variant]) -> list[Tensor]:
            outputs = self._outputs([variant.input for variant in part], cache, start)
            return [variant.numbers(output) for variant, output in zip(part, outputs, strict=True)]

        self._store(batch, list(chain.from_iterable(memory.run_in_halves(batch, numbers))), meter)

    def _store(self, variants: "Sequence[_Variant]", numbers: Sequence[Tensor], meter: Meter) -> None:
        if any(bool(each.isnan().any()) for each in numbers):
            message = (
                f"With so much hidden, a token of {self.subject.name} has nothing to attend to. Hide smaller units."
            )
            raise ModelError(message, part="attention mask")
        for variant, each in zip(variants, numbers, strict=True):
            variant.results.store(variant.key, each)
        self.forwards += len(variants)
        meter.step(len(variants))

    def _outputs(self, batch: Sequence[Input], cache: Any = None, start: int = 0, numbered: bool = True) -> Tensor:
        """The outputs that are read, [input, ...]; `numbered` inputs have the positions of their tokens."""
        if start:
            batch = [each.after(start) for each in batch]
        inputs = self._batch(batch, numbered)
        if cache is not None:
            inputs = cache.put_before(inputs, start)
        if batch[0].reads is not None:
            return logits_at(self.subject, inputs, np.stack([each.reads for each in batch if each.reads is not None]))
        logits = self.subject.logits(inputs).cpu()
        return logits if cache is None or self.subject.task == "sequence" else cache.with_text(logits, start)

    def _batch(self, batch: Sequence[Input], numbered: bool = True) -> dict[str, Tensor]:
        encoded = Encoded([each.row for each in batch], self.subject.text_encoder.pad_id)
        reads = batch[0].reads
        read = None if reads is None or not keeps_logits(self.subject) else len(reads)
        memory.check_forward(self.subject, len(encoded), encoded.longest, read)
        inputs = self.subject.inputs(encoded)
        # Positions without an attention mask would be read as those of several texts in one row.
        proven, places = known_of(self.subject), [each.places for each in batch if each.places is not None]
        if numbered and places and proven.numbered:
            table = np.zeros((len(batch), encoded.longest), dtype=np.int64)
            for positions, counted in zip(table, places, strict=True):
                positions[: len(counted)] = proven.first_position + counted
            inputs["position_ids"] = torch.as_tensor(table, device=self.subject.device)
        return inputs

    @property
    def _largest(self) -> int:
        """The most subsets of a batch."""
        return 1 if self.subject.unbatchable else self.batch_size or TOKENS

    def _run_after_text(self, variants: "Sequence[_Variant]", meter: Meter) -> None:
        """Read a text once, and subsets that share much with it from their first change on, if that is exact."""
        text, proven = variants[0].text, known_of(self.subject).reuse
        size = len(text.row)
        if not self.subject.causal or proven.shortest_failed <= size:
            return
        whole = self._whole(text)
        if len(variants) * whole.last < reuse.LEAST_SAVED:
            return
        for variant in variants:
            variant.start = variant.input.shared_size(whole)
        if not (shared := reuse.worth_sharing(variants)) or not reuse.can_reuse(self.subject):
            return
        cache, outputs = self._read(text)
        if outputs is None:
            return
        if not proven.is_tested(size):
            exact = cache is not None and all(
                self._continues(variant, cache, meter) for variant in reuse.probes(shared)
            )
            proven.add(size, exact)
        if not proven.holds(size):
            return
        waiting = [variant for variant in shared if not variant.results.holds(variant.key)]
        if entire := [variant for variant in waiting if variant.subset.all()]:
            self._store(entire, [entire[0].numbers(outputs[0])], meter)
        waiting = [variant for variant in waiting if not variant.subset.all()]
        for batch in reuse.batches(waiting, TOKENS, self._largest):
            self._run(batch, meter, cache, batch[0].start)

    def _whole(self, text: AblatedText) -> Input:
        """A text with nothing hidden, with the positions of its tokens if what is hidden from it has them."""
        return text.input(np.ones(len(text.row), dtype=bool), self.leaves_out(text))

    def _read(self, text: AblatedText) -> Any:
        """A cache that holds the keys and values of a text, and the outputs of reading it.

        The cache is None where the model fills none; there is neither without room for it.
        """
        from nbsal.ablation.text_cache import TextCache

        whole = self._whole(text)
        key = whole.ids.tobytes(), None if whole.reads is None else whole.reads.tobytes()
        if key in self._texts:  # by what is read: a prompt that is written anew may have other tokens
            return self._texts[key]
        encoded = Encoded([whole.row], self.subject.text_encoder.pad_id)
        try:  # a layer's keys are about as wide as its hidden states, or narrower
            memory.check_fits(self.subject, encoded, maps=0, states=2 * self.subject.depth)
        except OutOfMemory:
            return None, None
        cache = TextCache(self.subject.depth, str(reuse.cache_argument(self.subject.model)))
        outputs = reuse.attempt(lambda: self._outputs([whole], cache))
        read = cache if outputs is not None and cache.holds(len(whole)) else None, outputs
        if self._keeps_texts:
            self._texts[key] = read
        return read

    def _continues(self, variant: "_Variant", cache: Any, meter: Meter) -> bool:
        """Whether a subset that is read after what it shares with its text gives what it gives as a whole."""
        whole = self._outputs([variant.input])
        if not variant.results.holds(variant.key):
            self._store([variant], [variant.numbers(whole[0])], meter)
        after = reuse.attempt(lambda: self._outputs([variant.input], cache, variant.start))
        return after is not None and _is_close(whole, after)

    def _test(self, texts: Sequence[Any]) -> None:
        """Test on these texts whether our position ids are the model's, and whether leaving tokens out is exact.

        A result for one length holds for all shorter ones: test the longest text first, then the middle one.
        """
        if isinstance(self.subject.model, StandIn):  # a function of texts, in which nothing has a position
            return
        proven = known_of(self.subject)
        if uncounted := [text for text in texts if proven.numbered and not proven.positions.is_tested(len(text.row))]:
            longest = max(uncounted, key=lambda text: len(text.row)).lengthened(self.subject.max_length)
            proven.add_positions(len(longest.row), self._counts_like_us(longest))
        exact = proven.leaving_out
        by_length = {len(text.row): text for text in texts if text.may_leave_out and not exact.is_tested(len(text.row))}
        if by_length:
            longer = by_length[max(by_length)].lengthened(self.subject.max_length)
            by_length.setdefault(len(longer.row), longer)
        untested, next_index = sorted(by_length), -1
        while untested:
            length = untested[next_index]
            exact.add(length, self._leaves_out_exactly(by_length[length]))
            untested = [length for length in untested if not exact.is_tested(length)]
            next_index = len(untested) // 2

    def _counts_like_us(self, text: AblatedText) -> bool:
        """True if our position ids give the same outputs as the model's own."""
        whole = text.input(np.ones(len(text.row), dtype=bool), False)
        return whole.places is None or _is_close(self._outputs([whole]), self._outputs([whole], numbered=False))

    def _leaves_out_exactly(self, text: AblatedText) -> bool:
        """True if leaving tokens out gives the same outputs as masking them in place, or if a mask hides nothing."""
        exact = all(
            _is_close(*(self._outputs([text.input(trial, leaves_out)]) for leaves_out in (True, False)))
            for trial in text.trials()
        )
        return exact or self._reads_masked(text)

    def _reads_masked(self, text: AblatedText) -> bool:
        """True if other ids in the place of masked tokens change the outputs, as where attention takes no mask."""
        masked = text.input(text.trials()[0], False)
        others = (masked.ids + 1) % self.subject.model.config.vocab_size
        changed = replace(masked, ids=np.where(masked.mask == 0, others, masked.ids))
        return not _is_close(self._outputs([masked]), self._outputs([changed]))


@dataclass
class _Results:
    """The results of one text by subset, as bytes, which take less than tensors."""

    text: Text
    whole: Any = None  # what subsets are compared with
    _by_subset: dict[bytes, bytes] = field(default_factory=dict)
    _shape: tuple[int, ...] = ()
    _dtype: torch.dtype = torch.float32

    def holds(self, key: bytes) -> bool:
        return key in self._by_subset

    def store(self, key: bytes, numbers: Tensor) -> None:
        self._shape, self._dtype = tuple(numbers.shape), numbers.dtype
        self._by_subset[key] = numbers.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    def stack(self, subsets: Subsets) -> Tensor:
        """The results for some subsets as a [subset, ...] tensor."""
        joined = bytearray(b"".join(self._by_subset[key] for key, _ in subsets))
        return torch.frombuffer(joined, dtype=self._dtype).reshape(len(subsets), *self._shape)


@dataclass(slots=True, eq=False)
class _Variant:
    """A subset to run, and how many of its first tokens are those of the whole text."""

    text: Any
    results: _Results
    key: bytes
    subset: Flags
    input: Input = None  # type: ignore[assignment]  # set before it is run
    start: int = 0

    @property
    def size(self) -> int:
        return len(self.input)

    def numbers(self, outputs: Tensor) -> Tensor:
        """What is read of the outputs; those behind a text's own are of the padding of the batch."""
        if self.input.reads is None and outputs.ndim > 1:
            outputs = outputs[: self.size]
        numbers: Tensor = self.text.numbers(outputs, self.results.whole).cpu()
        return numbers


def _is_close(first: Tensor, second: Tensor) -> bool:
    """True if outputs are equal except for rounding."""
    scale = max(1.0, float(first.abs().max()))
    tolerance = TOLERANCE.get(first.dtype, 1e-5) * scale
    return bool(torch.isclose(first, second, rtol=0, atol=tolerance).all())


def _keyed(text: Text, table: Any) -> Subsets:
    """The subsets of a [subset, token] table, each with its key."""
    subsets, size = np.asarray(table, dtype=bool), len(text.row)
    if subsets.ndim != 2 or subsets.shape[1] != size:
        message = f"Subsets must have one entry for each token, [subset, {size}], not the shape {subsets.shape}."
        raise InputError(message, argument="subsets", value=table)
    return [(packed.tobytes(), subset) for packed, subset in zip(np.packbits(subsets, axis=1), subsets, strict=True)]
