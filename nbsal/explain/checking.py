"""Check the words that scores propose by hiding them: a few forward passes for each text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from nbsal.ablation.decision import DecisionText
from nbsal.ablation.engine import Ablation
from nbsal.ablation.experiment import Experiment
from nbsal.ablation.texts import REMOVE, TEXT
from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.decision_facts import (
    DECIDED,
    LEAST_GROUP,
    MOST_DRAWS,
    MOST_NAMED,
    TOO_LONG,
    Candidate,
    Check,
    Outcome,
    candidates,
    choose_named,
    content_candidates,
    proposed,
    with_first,
    with_smallest,
)
from nbsal.methods.rng import text_rng
from nbsal.model.subject import Subject
from nbsal.model.target import Target
from nbsal.model.targets import best_span, decide, is_regression, span_text
from nbsal.model.text.tokenize import token_name
from nbsal.model.text.tokens import Encoded, Row
from nbsal.passes import trace
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter

AT_ONCE = 4  # passes between which a newer text may come first
FIRST = 3  # passes of a first check
REDRAWN = 4  # times that random words are drawn for each draw that must differ from the others


def way_of(method: Any) -> str | int:
    """How a method hides tokens; those of methods that hide none are removed."""
    way = getattr(method, "way", REMOVE)
    return REMOVE if way == TEXT else way


def check(saliency: Saliency, ablation: Ablation, way: str | int, target: Any, passes: int, meter: Meter) -> Check:
    """What hiding the words of a saliency does to the decision, in at most `passes` forward passes.

    A set of words that is named is the smallest of its subsets that does the same.
    """
    subject, row = ablation.subject, saliency.row
    reading, logits = _read(saliency, subject, target)
    meter.step()
    result = _unchecked(saliency, subject, reading, logits)
    tried = result.candidates[: max(1, (passes - 1 - MOST_NAMED) // 2)]
    hide = partial(_hide, _words(ablation, row, reading, way), reading, meter)
    result = replace(result, candidates=tried, alone=hide([word.words for word in tried]))
    if not (named := choose_named(result)):
        return result
    sets = [named, *(combinations(named, 2) if len(named) == MOST_NAMED else ())] if len(named) > 1 else []
    outcomes = hide([_places(tried, each) for each in sets]) or (result.alone[named[0]],)
    result = with_smallest(result, dict(zip(sets or [named], outcomes, strict=True)))
    hidden = _places(tried, result.named if result.rival is None else (result.rival,))
    draws = min(MOST_DRAWS, passes - 1 - len(tried) - len(sets))
    random = hide(_random_words(row, hidden, len(hidden), draws))
    return replace(result, random=random, drawn=len(hidden))


def first_check(saliency: Saliency, ablation: Ablation, way: str | int, target: Any, meter: Meter) -> Check:
    """What hiding the strongest word, the strongest set of words and as many random ones does, in three passes."""
    subject, row = ablation.subject, saliency.row
    reading, logits = _read(saliency, subject, target, recorded=False)
    result = _unchecked(saliency, subject, reading, logits)
    if not (main := [result.candidates[number] for number in result.main]):
        return replace(result, first=True)
    content = _candidates(content_candidates(saliency.scored_words(), result.raises), saliency, reading)
    words = [word for word in content if (word.score < 0) == result.raises] or main
    words = words[: max(len(proposed(words)), LEAST_GROUP)]
    tried = (main[0], *(word for word in words if word != main[0]))
    group = tuple(tried.index(word) for word in words)
    sets = list(dict.fromkeys([(0,), group]))
    places = _places(tried, group)
    random = _random_words(row, _places(tried, range(len(tried))), len(places), FIRST - len(sets))
    experiment = _words(ablation, row, reading, way)
    outcomes = _hide(experiment, reading, meter, [*(_places(tried, each) for each in sets), *random])
    result = replace(result, candidates=tried, alone=outcomes[:1], random=outcomes[len(sets) :], drawn=len(places))
    return replace(with_first(result, group, outcomes[len(sets) - 1]), first=True)


def _read(saliency: Saliency, subject: Subject, target: Any, recorded: bool = True) -> "tuple[_Reading, Tensor]":
    """What is measured, and the logits of the whole text; unless they are to be `recorded`, those of the explanation
    where it holds them.
    """
    row = saliency.row
    if len(row) > subject.max_length:
        raise InputError(TOO_LONG, argument="text", value=row.text)
    logits = None if recorded else _logits_of(saliency, subject)
    if logits is not None:
        return _reading(subject, saliency, decide(subject, row, logits, target).target), logits
    record = trace.record(subject, Encoded([row], subject.text_encoder.pad_id), [target], needs=())
    return _reading(subject, saliency, record.decisions[0].target), record.logits[0]


def _logits_of(saliency: Saliency, subject: Subject) -> Tensor | None:
    """The logits of the whole text but for what they have in common, if the explanation tells them."""
    if subject.task != "sequence" or subject.usage.zero_shot is not None:
        return None
    if is_regression(subject):
        return torch.tensor(saliency.provenance["values"], dtype=torch.float64)
    probabilities = torch.from_numpy(saliency.probabilities).double()
    logits = probabilities.logit() if subject.activation == "sigmoid" else probabilities.log()
    return logits if bool(logits.isfinite().all()) else None


def _unchecked(saliency: Saliency, subject: Subject, reading: "_Reading", logits: Tensor) -> Check:
    """A check with all candidates, none of which was hidden yet."""
    raises = saliency.contrary and float(saliency.scores[list(saliency.row.content)].min()) < 0
    whole = reading.outcome(reading.value(logits), subject)
    classifies = reading.probable and reading.task == "sequence" and not reading.sigmoid
    tried = _candidates(candidates(saliency.scored_words(), raises), saliency, reading)
    return Check(tried, whole, (), (), whole, (), reading.probable, raises, classifies=classifies)


def _places(tried: Sequence[Candidate], numbers: Iterable[int]) -> list[int]:
    """The numbers of all words that are those candidates."""
    return sorted(place for number in numbers for place in tried[number].words)


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


def _candidates(proposals: Iterable[Candidate], saliency: Saliency, reading: _Reading) -> tuple[Candidate, ...]:
    """The words that scores propose; a mask token that is to be filled in is none of them."""
    words, places = saliency.row.words, {index[0] for index, _ in reading.terms} if reading.task == "masked" else set()
    return tuple(word for word in proposals if not any(places & {*words[number].tokens} for number in word.words))


def _random_words(row: Row, hidden: Sequence[int], size: int, draws: int) -> list[list[int]]:
    """Different random draws of other words than those hidden; the same whenever the text is the same."""
    others = [number for number in range(len(row.words)) if number not in hidden]
    if len(others) < size:
        return []
    rng, different = text_rng(0, row), dict[tuple[int, ...], None]()
    for _ in range(REDRAWN * draws):
        if len(different) < draws:
            different[tuple(sorted(rng.permutation(others)[:size].tolist()))] = None
    return [list(draw) for draw in different]


def _words(ablation: Ablation, row: Row, reading: _Reading, way: str | int) -> Experiment:
    """The experiment that hides words of a text."""
    return Experiment(ablation, DecisionText(ablation.subject, row, reading, way), [word.tokens for word in row.words])


def _hide(
    experiment: Experiment, reading: _Reading, meter: Meter, hidden: Sequence[Sequence[int]]
) -> tuple[Outcome, ...]:
    """What the model does without each of several sets of words."""
    subject, outcomes = experiment.ablation.subject, list[Outcome]()
    for start in range(0, len(hidden), AT_ONCE):
        values = experiment.without(*hidden[start : start + AT_ONCE], meter=meter)
        outcomes += [reading.outcome(value, subject) for value in values]
    return tuple(outcomes)
