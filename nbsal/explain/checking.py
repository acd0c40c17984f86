"""Check the words that scores propose by hiding them: a few forward passes for each text."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbsal.explain.decision_facts import DECIDED, TOO_LONG, Candidate, Check, Outcome, candidates, choose_named
from nbsal.explain.saliency import Saliency
from nbsal.methods.rng import text_rng
from nbsal.model.running.masking import TEXT, MaskedModel
from nbsal.model.subject import Subject
from nbsal.model.target import Target
from nbsal.model.targets import best_span, is_regression, span_text
from nbsal.model.text.tokenize import token_name
from nbsal.model.text.tokens import Encoded, Row
from nbsal.passes import trace
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter

AT_ONCE = 4  # passes between which a newer text may come first
QUICK = 0.5  # seconds that a check may take without being asked for


class TooSlow(Exception):
    """A check would take longer than is done unasked; `seconds` says how long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def way_of(method: Any) -> str | int:
    """How a method hides tokens; those of methods that hide none are removed."""
    way = getattr(method, "way", "remove")
    return "remove" if way == TEXT else way


def check(
    saliency: Saliency,
    masked_model: MaskedModel,
    target: Any,
    passes: int,
    meter: Meter,
    most_seconds: float | None = None,
) -> Check:
    """What hiding the words of a saliency does to the decision, in at most `passes` forward passes.

    Raise TooSlow if that would take more than `most_seconds`.
    """
    subject, row = masked_model.subject, saliency.row
    if len(row) > subject.max_length:
        raise InputError(TOO_LONG, argument="text", value=row.text)
    start = perf_counter()
    record = trace.record(subject, Encoded([row], subject.text_encoder.pad_id), [target], needs=())
    seconds = (perf_counter() - start) * passes
    if most_seconds is not None and seconds > most_seconds:
        raise TooSlow(seconds)
    meter.step()
    reading = _reading(subject, saliency, record.decisions[0].target)
    raises = saliency.contrary and float(saliency.scores[list(row.content)].min()) < 0
    tried = _candidates(saliency, reading, raises)[: (passes - 1) // 2]
    whole = reading.outcome(reading.value(record.logits[0]), subject)
    hide = partial(_hide, masked_model, row, reading, meter)
    alone = hide([word.words for word in tried])
    result = Check(tried, whole, alone, (), whole, (), reading.probable, raises)
    if not (named := choose_named(result)):
        return result
    hidden = sorted(place for number in named for place in tried[number].words)
    together, *random = hide([hidden, *_random_words(row, hidden, passes - 2 - len(tried))])
    best = max(result.main, key=lambda number: result.effect(alone[number]))
    if result.effect(alone[best]) > result.effect(together):  # words may also make up for one another
        named, together = (best,), alone[best]
    return replace(result, named=named, together=together, random=tuple(random), drawn=len(hidden))


@dataclass(frozen=True)
class _Reading(Target):
    """The value of a target, its probability if it has one, and what is decided: one tensor for each coalition."""

    task: str = ""
    probable: bool = True
    sigmoid: bool = False
    saliency: Saliency = field(kw_only=True, compare=False)

    def value(self, logits: Tensor) -> Tensor:
        value, decision = self._value_and_decision(logits)
        return torch.stack([value.double(), torch.tensor(decision, dtype=torch.float64)])

    def outcome(self, value: Tensor, subject: Subject) -> Outcome:
        """A value with what is decided, by name."""
        code = int(value[1])
        if code < 0:
            name = ""
        elif self.sigmoid:  # each label is decided by itself
            name = self.label if code else f"not {self.label}"
        elif self.task == "span":
            row = self.saliency.row
            name = span_text(row, *divmod(code, len(row)))
        else:
            name = subject.labels[code] if subject.labels else token_name(subject.tokenizer, code)
        return Outcome(self.saliency.display_name(name), float(value[0]))

    def _value_and_decision(self, logits: Tensor) -> tuple[Tensor, int]:
        if not self.probable:
            return super().value(logits), -1
        if self.task == "span":
            row = self.saliency.row
            start, end = best_span(row, logits)
            ends = logits.double().softmax(0)
            return torch.stack([ends[index] for index, _ in self.terms]).prod(), start * len(row) + end
        places = [logits[index[:-1]].double() for index, _ in self.terms]
        shares = [place.sigmoid() if self.sigmoid else place.softmax(-1) for place in places]
        values = [share[index[-1]] for share, (index, _) in zip(shares, self.terms, strict=True)]
        value = torch.stack(values).mean()
        return value, int(value >= DECIDED) if self.sigmoid else int(shares[0].argmax())


def _reading(subject: Subject, saliency: Saliency, target: Target) -> _Reading:
    """What is measured: the target that a saliency explains."""
    if target.label != saliency.target:
        message = f"The explanation is of the target {saliency.target!r}. Pass the target that was explained."
        raise InputError(message, argument="target", value=target.label)
    only_added = all(weight > 0 for _, weight in target.terms)
    probable = only_added and not is_regression(subject) and subject.usage.zero_shot is None
    sigmoid = subject.task == "sequence" and subject.activation == "sigmoid"
    return _Reading(target.label, target.terms, target.number, subject.task, probable, sigmoid, saliency=saliency)


def _candidates(saliency: Saliency, reading: _Reading, raises: bool) -> tuple[Candidate, ...]:
    """The words that scores propose; a mask token that is to be filled in is none of them."""
    words, places = saliency.row.words, {index[0] for index, _ in reading.terms} if reading.task == "masked" else set()
    proposals = candidates(saliency.scored_words(), raises)
    return tuple(word for word in proposals if not any(places & {*words[number].tokens} for number in word.words))


def _random_words(row: Row, hidden: Sequence[int], draws: int) -> list[list[int]]:
    """As many other words as are hidden, drawn at random; the same draws whenever the text is the same."""
    others = [number for number in range(len(row.words)) if number not in hidden]
    rng = text_rng(0, row)
    return [rng.permutation(others)[: len(hidden)].tolist() for _ in range(draws)] if len(others) >= len(hidden) else []


def _hide(
    masked_model: MaskedModel, row: Row, reading: _Reading, meter: Meter, hidden: Sequence[Sequence[int]]
) -> tuple[Outcome, ...]:
    """What the model does without each of several sets of words."""
    coalitions = np.ones((len(hidden), len(row)), dtype=bool)
    for coalition, numbers in zip(coalitions, hidden, strict=True):
        coalition[[token for number in numbers for token in row.words[number].tokens]] = False
    outcomes: list[Outcome] = []
    for start in range(0, len(hidden), AT_ONCE):
        (values,) = masked_model.values([row], [coalitions[start : start + AT_ONCE]], [reading], meter)
        outcomes += [reading.outcome(value, masked_model.subject) for value in values]
    return tuple(outcomes)
