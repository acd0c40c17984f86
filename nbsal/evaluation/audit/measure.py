"""Audit a classifier: scores propose words, and each is hidden in every text that has it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

import numpy as np
from torch import Tensor

from nbsal.ablation import experiment, tables
from nbsal.ablation.decision import DecisionText, filler_id
from nbsal.ablation.engine import Ablation
from nbsal.evaluation._hiding import LABELS, check_classifier, label_indices
from nbsal.evaluation.audit.flips import FlipSearch, find_flip
from nbsal.evaluation.audit.result import Audit, Correction, Effect
from nbsal.evaluation.audit.words import DistinctWord, log_odds, random_words, score_of, units_of
from nbsal.evaluation.cache import Cache, cache_or_new, encode_texts
from nbsal.explain.explainer import Explainer, as_explainer
from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.decision_facts import candidates as proposals
from nbsal.explain.sentences.decision_facts import proposed
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError, listed
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import (
    Text,
    as_list,
    check_one_per_text,
    check_texts,
    checked,
    positive_number,
    text_list,
)

LEAST = 5  # texts in which scores must name a word, or a mistake be corrected without it
CANDIDATES = 200
FIRST = 8  # words of the first stage
RANDOM = 2  # random words hidden from each text, so that each word has another one beside it
Chosen = tuple[Mapping[str, int], int]  # words with the texts that name each; how many could have been chosen
SHARES = (4, 2, 4)  # of the progress: explaining, correcting mistakes, hiding


@checked
def audit(
    explainer: Any,
    texts: Iterable[Text],
    labels: Iterable[Any] | None = None,
    *,
    groups: Mapping[str, Iterable[Any]] | None = None,
    other: Explainer | None = None,
    least: int = LEAST,
    candidates: int = CANDIDATES,
    way: str | int = "remove",
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Audit:
    """Find the words that a classifier relies on over many texts, and those behind its mistakes.

    Each word that scores rank high in enough texts is hidden in every text that has it, beside a random other word of
    the text, and the tables of the `Audit` say what that did. A cancelled call has its cache as the `partial` of its
    error, and resumes with it. `nbsal.evaluation.plan_audit` says before how much will be run.

    Args:
        explainer: An `Explainer`, or a model as `nbsal.load` takes it, which the default method explains.
        texts: The texts, or pairs of texts.
        labels: Their true labels. Without them there are no mistakes, only what words do to decisions.
        groups: Names with a value for each text, such as its source: errors are compared between the values.
        other: An explainer of another model, or of another version: the same words are hidden from it.
        least: In how many texts a word must be ranked high, or correct a mistake, to be hidden everywhere.
        candidates: How many words are hidden at most.
        way: How words are hidden: "remove", "mask", "pad", or the id of a token in their place.
        batch_size: How many texts are run together at most.
        cache: What was run before: pass one to repeat an audit with other settings at once.
        progress: Whether to show a progress bar, or a function that is called with what is done, and of how much.
        cancel: An event that stops the call.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "occlusion")
    >>> texts, labels = ["A dull film.", "A dull joy.", "A joy."], ["positive", "negative", "positive"]
    >>> audit(explain, texts, labels, least=1, progress=False).sentence
    'None of 2 words misleads the model beyond chance.'
    """
    settings = AuditSettings(groups or {}, other, least, candidates, way, batch_size)
    items = check_texts(list(text_list(texts)))
    count = sum(SHARES) * len(items) * (1 if other is None else 2)
    with cache_or_new(cache) as cache, Meter(count, progress, cancel) as meter:
        (result,) = stages(as_explainer(explainer), items, labels, settings, cache, meter)
    return result


@dataclass(frozen=True)
class AuditSettings:
    """The arguments of `nbsal.audit` that say what is measured.

    With `grows`, `stages` hides a few words at first, and then twice as many each time.
    """

    groups: Mapping[str, Iterable[Any]] = field(default_factory=dict)
    other: Explainer | None = None
    least: int = LEAST
    candidates: int = CANDIDATES
    way: str | int = "remove"
    batch_size: int = 32
    words: Sequence[str] | None = None  # to hide instead of those that scores name
    grows: bool = False


def stages(
    explainer: Explainer,
    items: Sequence[Text],
    labels: Iterable[Any] | None,
    settings: AuditSettings,
    cache: Cache,
    meter: Meter,
) -> Iterator[Audit]:
    """The audit of the words that are hidden so far; the last one is of all words. `meter` has a total."""
    least, most = positive_number(settings.least, "least"), positive_number(settings.candidates, "candidates")
    other = settings.other
    explainers = [explainer] if other is None else [explainer, other]
    for each in explainers:
        _check_subject(each.subject)
    if other is not None and list(other.subject.labels) != list(explainer.subject.labels):
        message = f"other has the labels {listed(other.subject.labels)}, and explainer has others. Use the same."
        raise InputError(message, argument="other", value=other)
    given = None if labels is None else as_list(labels, "labels", LABELS)
    gold = None if given is None else label_indices(explainer.subject, given, len(items))
    groups = _check_groups(settings.groups, len(items))
    rows = encode_texts(explainers, items)
    inner = meter.part(meter.total or 0, sum(SHARES) * len(items) * len(explainers))
    first, *others = (_Run(each, rows, gold, settings.way, cache, inner) for each in explainers)
    saliencies, corrections = first.explain(settings.batch_size)
    chosen = choose_words(saliencies, corrections, least, most) if settings.words is None else _given(settings.words)
    (words, considered), result, before = chosen, None, 0
    for size in _sizes(len(words)) if settings.grows else [len(words)]:
        if result is not None:
            yield result
        some = {word: words[word] for word in list(words)[:size]}, considered
        share = (size - before) / (len(words) or 1)
        result, before = first.audit(saliencies, corrections, some, groups, share=share or 1), size
    assert result is not None
    for second in others:
        classes = {effect.word: effect.speaks_for for effect in result.effects}
        result = replace(result, other=second.audit(*second.explain(settings.batch_size), chosen, groups, classes))
    yield result


def _sizes(count: int) -> list[int]:
    """Of how many words each stage is."""
    sizes = [FIRST]
    while sizes[-1] < count:
        sizes.append(2 * sizes[-1])
    return [*sizes[:-1], count]


def choose_words(saliencies: Sequence[Saliency], corrections: Sequence[Correction], least: int, most: int) -> Chosen:
    """The words that scores name, or that are behind a mistake, in at least `least` texts; `most` words at most.

    What is behind mistakes depends on the labels, and so do the tests of the words. So every word of enough mistakes
    counts as tried, whether it was chosen or not.
    """
    behind = {each.text: {word.casefold() for word in each.words} for each in corrections}
    named, mistaken = Counter[str](), Counter[str]()
    for text, saliency in enumerate(saliencies):
        side = [word for word in proposals(saliency.scored_words()) if word.score > 0]
        named.update({word.text.casefold() for word in proposed(side)} | behind.get(text, set()))
        mistaken.update({unit.text.casefold() for unit in units_of(saliency.row)} if text in behind else ())
    frequent = sorted((word for word, count in named.items() if count >= least), key=lambda word: (-named[word], word))
    words = {word: named[word] for word in frequent[:most]}
    return words, len(words.keys() | {word for word, count in mistaken.items() if count >= least})


def _given(words: Sequence[str]) -> Chosen:
    """Words to hide that scores need not name."""
    return dict.fromkeys((word.casefold() for word in words), 0), len({*words})


class _Run:
    """The audit of one model, with the cache and the progress that it shares with that of the other one."""

    def __init__(
        self,
        explainer: Explainer,
        rows: Mapping[Subject, Encoded],
        gold: list[int] | None,
        way: str | int,
        cache: Cache,
        meter: Meter,
    ) -> None:
        self.explainer, self.gold, self.cache, self.meter, self.way = explainer, gold, cache, meter, way
        filler_id(explainer.subject, way)  # raises an error if the way is not available
        self.subject, self.rows = explainer.subject, rows[explainer.subject]

    def explain(self, batch_size: int) -> tuple[list[Saliency], tuple[Correction, ...]]:
        """The explanation of the decision about each text, and what is behind each mistake."""
        count = len(self.rows)
        part = self.meter.part(SHARES[0] * count, count)
        (saliencies,) = self.cache.explain(
            [self.explainer], {self.subject: self.rows}, [None] * count, batch_size, part
        )
        return saliencies, self._corrections(saliencies)

    def audit(
        self,
        saliencies: Sequence[Saliency],
        corrections: tuple[Correction, ...],
        chosen: Chosen,
        groups: Mapping[str, tuple[str, ...]],
        classes: Mapping[str, int] | None = None,
        share: float = 1.0,
    ) -> Audit:
        """Hide every chosen word in every text that has it; `classes` are those that another model found for them.

        `share` is that of the words which were not hidden before.
        """
        words, considered = chosen
        units = [{unit.text.casefold(): unit for unit in units_of(row)} for row in self.rows]
        random = [random_words(row, list(text), RANDOM) for row, text in zip(self.rows, units, strict=True)]
        hidden = [
            list(dict.fromkeys([*(word for word in words if word in text), *drawn]))
            for text, drawn in zip(units, random, strict=True)
        ]
        parts = [[text[word] for word in some] for text, some in zip(units, hidden, strict=True)]
        passes = sum(1 + len(some) for some in parts)
        logits = self._without_each(
            range(len(self.rows)), parts, self.meter.part(share * SHARES[2] * len(self.rows), passes)
        )
        decided = [each.argmax(-1).tolist() for each in logits]
        outcomes = _Outcomes([log_odds(each) for each in logits], decided, hidden, random)
        effects = []
        for word, named in words.items():
            having = [text for text, there in enumerate(units) if word in there]
            scores = tuple(score_of(saliencies[text], units[text][word]) for text in having)
            pulls = outcomes.pulls(having, word)
            speaks_for = int(pulls.mean(0).argmax()) if classes is None else classes[word]
            without = tuple(outcomes.without(text, word) for text in having)
            beside = tuple(outcomes.beside(text, word) for text in having)
            pull = tuple(pulls[:, speaks_for].tolist())
            effects.append(Effect(word, speaks_for, named, tuple(having), scores, pull, without, beside))
        predictions = [each[0] for each in decided]
        dropped = sum(bool(row.dropped) for row in self.rows)
        facts = {"way": self.way, "passes": passes, "dropped": dropped}
        return Audit(
            classes=tuple(map(str, self.subject.labels)),
            texts=tuple(row.text for row in self.rows),
            labels=None if self.gold is None else tuple(self.gold),
            predictions=tuple(predictions),
            confidences=tuple(float(each[0].double().softmax(-1).max()) for each in logits),
            spans=tuple(tuple((word.segment, word.start, word.end) for word in row.words) for row in self.rows),
            scores=tuple(tuple(saliency.word_scores) for saliency in saliencies),
            effects=tuple(effects),
            considered=considered,
            corrections=corrections,
            groups=groups,
            provenance=self.explainer.provenance | facts,
            model=self,
        )

    def saliencies(self) -> list[Saliency]:
        """The explanations of the texts, which are in the cache."""
        count, subject = len(self.rows), {self.subject: self.rows}
        return self.cache.explain([self.explainer], subject, [None] * count, count, Meter(None))[0]

    def hide(self, words: Sequence[str]) -> Effect:
        """What hiding some words together does in every text that has any of them, to the class that they speak for."""
        units = [[unit for unit in units_of(row) if unit.text.casefold() in words] for row in self.rows]
        having = [text for text, some in enumerate(units) if some]
        logits = self._without_each(having, [[_together(units[text])] for text in having], Meter(None))
        pulls = np.stack([before - after for before, after in map(log_odds, logits)])
        speaks_for = int(pulls.mean(0).argmax())
        without = tuple(int(each[1].argmax()) for each in logits)
        scores = (float("nan"),) * len(having)
        pull = tuple(pulls[:, speaks_for].tolist())
        return Effect(", ".join(words), speaks_for, 0, tuple(having), scores, pull, without, ())

    def _corrections(self, saliencies: Sequence[Saliency]) -> tuple[Correction, ...]:
        """The smallest set of words of each mistake whose hiding corrects it."""
        count = len(saliencies)
        whole = self._without_each(range(count), [[]] * count, self.meter.part(0, count))
        predictions = [int(logits.argmax()) for logits in whole]
        gold = self.gold or predictions
        wrong = [text for text in range(count) if gold[text] != predictions[text]]
        part, corrections = self.meter.part(SHARES[1] * count, len(wrong)), []
        ablation = self.cache.ablations.setdefault(self.subject, Ablation(self.subject))
        for text in wrong:
            part.check()
            decision = DecisionText(self.subject, saliencies[text].row, way=self.way)
            flip = find_flip(FlipSearch(decision, ablation, gold[text], Meter(None)), saliencies[text])
            corrections.append(Correction(text, flip.words, flip.places, flip.exact))
            part.step()
        part.reach(len(wrong) or 1)
        return tuple(corrections)

    def _without_each(
        self, texts: Sequence[int], parts: Sequence[Sequence[DistinctWord]], meter: Meter
    ) -> list[Tensor]:
        """The logits of each text, whole and without each of its parts: [1 + part, class]."""
        experiments = [
            self.cache.experiment(self.subject, self.rows[text], [unit.tokens for unit in some], self.way)
            for text, some in zip(texts, parts, strict=True)
        ]
        left = [tables.without(len(some), [], *([i] for i in range(len(some)))) for some in parts]
        return experiment.run(experiments, left, meter)


@dataclass(frozen=True)
class _Outcomes:
    """The log-odds of every class, [coalition, class], and the decision of each coalition of every text.

    The first coalition of a text is all of it, the others are without each of its words in `hidden`, among which are
    those of `random`.
    """

    odds: Sequence[Floats]
    decided: Sequence[Sequence[int]]
    hidden: Sequence[Sequence[str]]
    random: Sequence[Sequence[str]]

    def pulls(self, texts: Sequence[int], word: str) -> Floats:
        """The change of the log-odds that a word makes: [text, class]."""
        pulls = [self.odds[text][0] - self.odds[text][self._place(text, word)] for text in texts]
        return np.array(pulls).reshape(len(texts), self.odds[0].shape[-1])

    def without(self, text: int, word: str) -> int:
        """The decision without a word."""
        return self.decided[text][self._place(text, word)]

    def beside(self, text: int, word: str) -> int:
        """The decision without a random other word, or without the word in a text that has no other."""
        return self.without(text, next((other for other in self.random[text] if other != word), word))

    def _place(self, text: int, word: str) -> int:
        return 1 + self.hidden[text].index(word)


def _together(units: Sequence[DistinctWord]) -> DistinctWord:
    """Several words of a text as one."""
    tokens = tuple(token for unit in units for token in unit.tokens)
    return DistinctWord(
        ", ".join(unit.text for unit in units), tuple(place for unit in units for place in unit.places), tokens
    )


def _check_subject(subject: Subject) -> None:
    check_classifier(subject)
    if subject.activation == "sigmoid":
        message = (
            f"{subject.name} gives several labels to a text. An audit follows decisions for one of several classes."
        )
        raise InputError(message, argument="explainer", value=subject)


def _check_groups(groups: Mapping[str, Iterable[Any]], count: int) -> dict[str, tuple[str, ...]]:
    """The value of every text in each group, as text."""
    named = {}
    for name, values in groups.items():
        items = as_list(values, "groups", f"needs one value of {name!r} for each text")
        check_one_per_text(items, "groups", count)
        named[str(name)] = tuple(map(str, items))
    return named
