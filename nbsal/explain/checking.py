"""Check the words that scores propose by hiding them: a few forward passes for each explanation."""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbsal.ablation import tables
from nbsal.ablation.decision import DecisionText
from nbsal.ablation.engine import Ablation
from nbsal.ablation.experiment import Experiment
from nbsal.ablation.texts import REMOVE, TEXT
from nbsal.explain.answer_spans import unit_names
from nbsal.explain.saliency import Saliency
from nbsal.explain.scoring.reply_experiment import ReplyExperiment
from nbsal.explain.scoring.running import SpanSaliency
from nbsal.explain.sentences.decision_facts import (
    DECIDED,
    LEAST_GROUP,
    MOST_DRAWS,
    MOST_NAMED,
    TOO_LONG,
    Candidate,
    Check,
    HiddenUnit,
    candidates,
    choose_named,
    content_candidates,
    proposed,
    with_first,
    with_smallest,
)
from nbsal.explain.sentences.outcomes import Outcome
from nbsal.methods.perturbation import Perturbation
from nbsal.methods.rng import text_rng
from nbsal.model.subject import Subject
from nbsal.model.target import BEST, Target
from nbsal.model.targets import best_span, decide, is_regression, span_text
from nbsal.model.text.tokenize import token_name
from nbsal.model.text.tokens import Encoded
from nbsal.passes import trace
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter

AT_ONCE = 4  # passes between which a newer text may come first
FIRST = 3  # passes of a first check
REDRAWN = 4  # times that random words are drawn for each draw that must differ from the others


@dataclass(frozen=True, eq=False)
class HiddenWords:
    """The words of an explanation as the units of an experiment.

    `whole` is the outcome of the whole text, `read` gives those without a few sets of words. Values are probabilities
    if `probable`. With `raises`, the words that matter speak against what is explained: hiding them raises the value.
    """

    saliency: Saliency
    experiment: Experiment
    read: Callable[[Sequence[Iterable[int]], Meter], list[Outcome]]
    whole: Outcome
    scored: Sequence[tuple[str, float, int]]  # the text, the score and the part of each word
    probable: bool
    raises: bool
    classifies: bool = False  # whether one class is decided for the whole text
    fixed: Set[int] = frozenset()  # the numbers of words that must stay
    unit: HiddenUnit = "word"  # what each is called

    def hide(self, sets: Sequence[Iterable[int]], meter: Meter) -> tuple[Outcome, ...]:
        """The outcome without each of several sets of words."""
        outcomes: list[Outcome] = []
        for start in range(0, len(sets), AT_ONCE):
            outcomes += self.read(sets[start : start + AT_ONCE], meter)
        return tuple(outcomes)


def way_of(*methods: Any) -> str | int:
    """How methods hide tokens; those of methods that hide none, or hide them each in its own way, are removed."""
    ways = {getattr(method, "way", REMOVE) for method in methods}
    return REMOVE if TEXT in ways or len(ways) > 1 else ways.pop()


def check(words: HiddenWords, passes: int, meter: Meter) -> Check:
    """What hiding the words of an explanation does, in at most `passes` forward passes.

    A set of words that is named is the smallest of its subsets that does the same.
    """
    meter.step()  # of the whole text
    result = _unchecked(words)
    tried = result.candidates[: max(1, (passes - 1 - MOST_NAMED) // 2)]
    hide = partial(words.hide, meter=meter)
    result = replace(result, candidates=tried, alone=hide([word.words for word in tried]))
    if not (named := choose_named(result)):
        return result
    sets = [named, *(combinations(named, 2) if len(named) == MOST_NAMED else ())] if len(named) > 1 else []
    outcomes = hide([places(tried, each) for each in sets]) or (result.alone[named[0]],)
    result = with_smallest(result, dict(zip(sets or [named], outcomes, strict=True)))
    hidden = places(tried, result.named if result.rival is None else (result.rival,))
    draws = min(MOST_DRAWS, passes - 1 - len(tried) - len(sets))
    random = hide(random_words(words, hidden, len(hidden), draws))
    return replace(result, random=random, drawn=len(hidden))


def first_check(words: HiddenWords, meter: Meter) -> Check:
    """What hiding the strongest word, the strongest set of words and as many random ones does, in three passes."""
    result = _unchecked(words)
    if not (main := [result.candidates[number] for number in result.main]):
        return replace(result, first=True)
    content = _candidates(words, content_candidates(words.scored, result.raises))
    chosen = [word for word in content if (word.score < 0) == result.raises] or main
    chosen = chosen[: max(len(proposed(chosen)), LEAST_GROUP)]
    tried = (main[0], *(word for word in chosen if word != main[0]))
    group = tuple(tried.index(word) for word in chosen)
    sets = list(dict.fromkeys([(0,), group]))
    drawn = len(places(tried, group))
    random = random_words(words, places(tried, range(len(tried))), drawn, FIRST - len(sets))
    outcomes = words.hide([*(places(tried, each) for each in sets), *random], meter)
    result = replace(result, candidates=tried, alone=outcomes[:1], random=outcomes[len(sets) :], drawn=drawn)
    return replace(with_first(result, group, outcomes[len(sets) - 1]), first=True)


def _unchecked(words: HiddenWords) -> Check:
    """A check with all candidates, none of which was hidden yet."""
    tried, whole = _candidates(words, candidates(words.scored, words.raises)), words.whole
    check = Check(tried, whole, (), (), whole, (), words.probable, words.raises, unit=words.unit)
    return replace(check, classifies=words.classifies)


def _candidates(words: HiddenWords, proposals: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The words that scores propose, without those that must stay."""
    return tuple(word for word in proposals if words.fixed.isdisjoint(word.words))


def places(tried: Sequence[Candidate], numbers: Iterable[int]) -> list[int]:
    """The numbers of all words that are those candidates."""
    return sorted(place for number in numbers for place in tried[number].words)


def random_words(words: HiddenWords, hidden: Sequence[int], size: int, draws: int) -> list[list[int]]:
    """Different random draws of other words than those hidden; the same whenever the text is the same."""
    others = [number for number in range(len(words.experiment.units)) if number not in hidden]
    if len(others) < size:
        return []
    rng, different = text_rng(0, words.saliency.row), dict[tuple[int, ...], None]()
    for _ in range(REDRAWN * draws):
        if len(different) < draws:
            different[tuple(sorted(rng.permutation(others)[:size].tolist()))] = None
    return [list(draw) for draw in different]


def words_of(
    saliency: Saliency, ablation: Ablation, way: str | int, target: Any = None, recorded: bool = True
) -> HiddenWords:
    """The words of any explanation; for a part of a reply, those of the prompt, hidden as its method hides them.

    Unless the logits of a decision are to be `recorded`, they are those of the explanation where it holds them.
    """
    if isinstance(saliency, SpanSaliency):
        return _words_of_part(saliency)
    subject, row = ablation.subject, saliency.row
    if len(row) > subject.max_length:
        raise InputError(TOO_LONG, argument="text", value=row.text)
    logits = None if recorded else _logits_of(saliency, subject)
    if logits is None:
        record = trace.record(subject, Encoded([row], subject.text_encoder.pad_id), [target], needs=())
        logits, explained = record.logits[0], record.decisions[0].target
    else:
        explained = decide(subject, row, logits, target).target
    reading = _reading(subject, saliency, explained)
    experiment = Experiment(ablation, DecisionText(subject, row, reading, way), [word.tokens for word in row.words])

    def read(sets: Sequence[Iterable[int]], meter: Meter) -> list[Outcome]:
        return [reading.outcome(value, subject) for value in experiment.without(*sets, meter=meter)]

    return HiddenWords(
        saliency,
        experiment,
        read,
        whole=reading.outcome(reading.value(logits), subject),
        scored=saliency.scored_words(),
        probable=reading.probable,
        raises=_raises(saliency),
        classifies=reading.probable and reading.task == "sequence" and not reading.sigmoid,
        fixed=reading.masked_words() if reading.task == "masked" else frozenset(),
    )


def _raises(saliency: Saliency) -> bool:
    """Whether the words that matter speak against what is explained: not if the decision speaks for it."""
    decided = not saliency.contrary or saliency.target.startswith(f"{saliency.prediction} - ")
    return not decided and float(saliency.scores[list(saliency.row.content)].min()) < 0


def _words_of_part(saliency: SpanSaliency) -> HiddenWords:
    """The words of a prompt that may bear on a part of its reply, or on a token of it rather than another.

    Of methods that hide units, these are hidden in place of words. Values are probabilities of the part, or the
    log-odds of the token against the other one.
    """
    running, target = saliency.running, saliency.span_target
    if running is None or target is None:
        message = "The explanation was loaded, or is of two whole replies. Check one that Answer.of returns."
        raise InputError(message, argument="saliency", value=saliency)
    numbers = {running.reading.position(token): token for token in range(len(running.reading.reply_ids))}
    tokens = [numbers[index[0]] for index, weight in target.terms if weight > 0]
    by_word = not isinstance(running.method, Perturbation) or saliency.provenance["unit"] == "word"
    experiment = running.experiment.with_units(running.reading.units("word")) if by_word else running.experiment
    others = [running.with_rival(tokens[0], index[1]) for index, weight in target.terms if weight < 0]
    rival = experiment.with_reading(others[0]) if others else None
    part = _Part(saliency, experiment, tokens, rival, target.label)
    (whole,) = part.read([()], Meter(None))
    return HiddenWords(
        saliency,
        experiment,
        part.read,
        whole,
        scored=part.scored(),
        probable=not others,
        raises=_raises(saliency),
        unit="word" if by_word else "part",
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of a reply, or a token of it rather than the one that `rival` has at the end of its reply."""

    saliency: SpanSaliency
    experiment: ReplyExperiment
    tokens: Sequence[int]  # numbered in the reply
    rival: ReplyExperiment | None
    instead: str  # the other token

    def scored(self) -> list[tuple[str, float, int]]:
        """The name and the score of each unit."""
        units = self.experiment.parts
        names = unit_names(units, self.experiment.reading.prompt.sources)
        sums = [float(self.saliency.scores[list(unit.tokens)].sum()) for unit in units]
        return [(name, score, 0) for name, score in zip(names, sums, strict=True)]

    def read(self, sets: Sequence[Iterable[int]], meter: Meter) -> list[Outcome]:
        table = tables.without(len(self.experiment.parts), *sets)
        values = self.experiment.numbers(table, meter=meter)[:, self.tokens].sum(1)
        if self.rival is not None:
            odds = values - self.rival.numbers(table)[:, -1]
            return [Outcome(self.saliency.prediction if value > 0 else self.instead, float(value)) for value in odds]
        best = self.experiment.numbers(table, BEST)[:, self.tokens].astype(int)
        return [Outcome(self._written(row), float(np.exp(value))) for row, value in zip(best, values, strict=True)]

    def _written(self, best: Floats) -> str:
        """The part as the model would write it up to the first token that is another one."""
        reading, tokenizer = self.experiment.reading, self.experiment.ablation.subject.tokenizer
        own = [reading.reply_ids[token] for token in self.tokens]
        changed = next((i for i, (index, other) in enumerate(zip(own, best, strict=True)) if index != other), None)
        if changed is None:
            return self.saliency.prediction
        return str(tokenizer.decode([*own[:changed], int(best[changed])])).strip()


def _logits_of(saliency: Saliency, subject: Subject) -> Tensor | None:
    """The logits of the whole text but for what they have in common, if the explanation tells them."""
    if subject.task != "sequence" or subject.usage.zero_shot is not None:
        return None
    if is_regression(subject):
        return torch.tensor(saliency.provenance["values"], dtype=torch.float64)
    probabilities = torch.from_numpy(saliency.probabilities).double()
    logits = probabilities.logit() if subject.activation == "sigmoid" else probabilities.log()
    return logits if bool(logits.isfinite().all()) else None


@dataclass(frozen=True)
class DecisionReading(Target):
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

    def masked_words(self) -> Set[int]:
        """The numbers of the words that are to be filled in."""
        places = {index[0] for index, _ in self.terms}
        return {number for number, word in enumerate(self.saliency.row.words) if places & {*word.tokens}}

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


def _reading(subject: Subject, saliency: Saliency, target: Target) -> DecisionReading:
    """What is measured: the target that a saliency explains."""
    if target.label != saliency.target:
        message = f"The explanation is of the target {saliency.target!r}. Pass the target that was explained."
        raise InputError(message, argument="target", value=target.label)
    only_added = all(weight > 0 for _, weight in target.terms)
    probable = only_added and not is_regression(subject) and subject.usage.zero_shot is None
    sigmoid = subject.task == "sequence" and subject.activation == "sigmoid"
    return DecisionReading(
        target.label, target.terms, target.number, subject.task, probable, sigmoid, saliency=saliency
    )
