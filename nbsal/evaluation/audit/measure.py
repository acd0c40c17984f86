"""Audit a classifier: scores propose words, and each is hidden in every text that has it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

import numpy as np

from nbsal.evaluation._hiding import LABELS, check_classifier, label_indices
from nbsal.evaluation.audit.flips import MOST, find_flip
from nbsal.evaluation.audit.result import Audit, Correction, Effect
from nbsal.evaluation.audit.words import Unit, log_odds, score_of, units_of
from nbsal.evaluation.cache import Cache, cache_or_new, encode_texts
from nbsal.explain.decision_facts import candidates as proposals
from nbsal.explain.decision_facts import proposed
from nbsal.explain.explainer import Explainer, as_explainer
from nbsal.explain.saliency import Saliency
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import (
    Text,
    as_list,
    check_one_per_text,
    check_texts,
    checked,
    plural,
    positive_number,
    text_list,
)

LEAST = 5  # texts in which scores must name a word
CANDIDATES = 200
TRIED = 3  # words of a set up to which all are run for each mistake
SHARES = (4, 5, 1)  # of the progress: explaining, hiding, correcting mistakes
Key = tuple[str, int]  # of a candidate: a word in lower case, and the class it speaks for


@dataclass(frozen=True)
class Plan:
    """What an audit will run at most: texts that are explained, and forward passes with words hidden."""

    texts: int
    passes: int

    def __str__(self) -> str:
        passes = f"at most {self.passes:,} masked forward passes, and those for mistakes"
        return f"{plural(self.texts, 'text')} to explain, then {passes}"


@checked
def plan_audit(explainer: Any, texts: Iterable[Text], *, least: int = LEAST, candidates: int = CANDIDATES) -> Plan:
    """What an audit of those texts will run at most, without running the model.

    The words that scores will name are not known yet, so the most frequent words are counted. A mistake takes about a
    dozen passes more, and up to 310 in a text of at most twelve words.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradxact")
    >>> print(plan_audit(explain, ["A dull film.", "A dull joy."], least=1))
    2 texts to explain, then at most 10 masked forward passes, and those for mistakes
    """
    explainer = as_explainer(explainer)
    rows = encode_texts([explainer], check_texts(list(text_list(texts))))[explainer.subject]
    counts: dict[str, int] = {}
    for row in rows:
        for unit in units_of(row):
            counts[unit.text.casefold()] = counts.get(unit.text.casefold(), 0) + 1
    most = sorted((count for count in counts.values() if count >= least), reverse=True)[:candidates]
    return Plan(len(rows), len(rows) + sum(most))


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
    """What a classifier goes by over many texts, and which words are behind its mistakes.

    `explainer` may also be a model, as `nbsal.load` takes it, which the default method explains.
    A word is a candidate for a class if the scores of at least `least` texts of that decision name it; at most
    `candidates` are tried. Each is hidden (`way`) in every text that has it, and the tables say what that did. Without
    `labels` there are no mistakes, and only what words do to decisions is known. `groups` maps names to a value for
    each text, such as its source: errors are compared between them. `other` is another model, or another version of
    it: the same words are hidden from it, and the tables have its numbers too.

    `cache` holds what was run: pass one to repeat an audit with other settings at once. A cancelled call has it as the
    `partial` of its error, and resumes with it. `plan_audit` says before how much will be run.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "occlusion")
    >>> texts, labels = ["A dull film.", "A dull joy.", "A joy."], ["positive", "negative", "positive"]
    >>> audit(explain, texts, labels, least=1, progress=False).sentence
    'Hiding “dull” corrects 1 of 1 mistake and breaks 1 of 2 right decisions.'
    """
    least, candidates = positive_number(least, "least"), positive_number(candidates, "candidates")
    items = check_texts(list(text_list(texts)))
    explainer = as_explainer(explainer)
    explainers = [explainer] if other is None else [explainer, other]
    for each in explainers:
        _check_subject(each.subject)
    if other is not None and list(other.subject.labels) != list(explainer.subject.labels):
        message = f"other has the labels {', '.join(other.subject.labels)}, and explainer has others. Use the same."
        raise InputError(message, argument="other", value=other)
    given = None if labels is None else as_list(labels, "labels", LABELS)
    gold = None if given is None else label_indices(explainer.subject, given, len(items))
    named_groups = _check_groups(groups or {}, len(items))
    rows = encode_texts(explainers, items)
    with cache_or_new(cache) as cache, Meter(sum(SHARES) * len(items) * len(explainers), progress, cancel) as meter:
        first = _Run(explainer, rows, gold, way, cache, meter)
        saliencies = first.explain(batch_size)
        keys = name_candidates(saliencies, first.subject, least, candidates)
        result = first.audit(saliencies, keys, named_groups)
        if other is None:
            return result
        second = _Run(other, rows, gold, way, cache, meter)
        return replace(result, other=second.audit(second.explain(batch_size), keys, named_groups))


def name_candidates(saliencies: Sequence[Saliency], subject: Subject, least: int, most: int) -> dict[Key, int]:
    """The words that scores name for a decision in at least `least` texts, with their number; `most` words at most."""
    counts: dict[Key, int] = {}
    for saliency in saliencies:
        decided = subject.labels.index(saliency.prediction)
        side = [word for word in proposals(saliency.scored_words()) if word.score > 0]
        for word in {word.text.casefold() for word in proposed(side)}:
            counts[word, decided] = counts.get((word, decided), 0) + 1
    frequent = sorted((key for key, count in counts.items() if count >= least), key=lambda key: (-counts[key], key))
    return {key: counts[key] for key in frequent[:most]}


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
        self.subject, self.rows = explainer.subject, rows[explainer.subject]
        self.masked = cache.masked_model(self.subject, way)

    def explain(self, batch_size: int) -> list[Saliency]:
        """The explanation of the decision about each text."""
        count = len(self.rows)
        part = self.meter.part(SHARES[0] * count, count)
        (saliencies,) = self.cache.explain(
            [self.explainer], {self.subject: self.rows}, [None] * count, batch_size, part
        )
        return saliencies

    def audit(
        self, saliencies: Sequence[Saliency], keys: Mapping[Key, int], groups: Mapping[str, tuple[str, ...]]
    ) -> Audit:
        """Hide every candidate in every text that has it, and correct the mistakes."""
        units = [{unit.text.casefold(): unit for unit in units_of(row)} for row in self.rows]
        hidden = [[word for word in dict.fromkeys(word for word, _ in keys) if word in text] for text in units]
        texts = zip(self.rows, units, hidden, strict=True)
        tables = [_coalitions(len(row), [text[word] for word in some]) for row, text, some in texts]
        part = self.meter.part(SHARES[1] * len(self.rows), sum(map(len, tables)))
        logits = self.masked.logits(list(self.rows), tables, part)
        outcomes = _Outcomes([log_odds(each) for each in logits], [each.argmax(-1).tolist() for each in logits], hidden)
        effects = []
        for (word, speaks_for), named in keys.items():
            having, places = outcomes.of(word)
            scores = tuple(score_of(saliencies[text], units[text][word]) for text in having)
            pulls = outcomes.pulls(having, places, speaks_for)
            without = tuple(outcomes.decided[text][at] for text, at in zip(having, places, strict=True))
            effects.append(Effect(word, speaks_for, named, tuple(having), scores, pulls, without))
        predictions = [each[0] for each in outcomes.decided]
        dropped = sum(bool(row.dropped) for row in self.rows)
        facts = {"way": self.way, "passes": sum(map(len, tables)), "dropped": dropped}
        return Audit(
            classes=tuple(map(str, self.subject.labels)),
            texts=tuple(row.text for row in self.rows),
            labels=None if self.gold is None else tuple(self.gold),
            predictions=tuple(predictions),
            confidences=tuple(float(each[0].double().softmax(-1).max()) for each in logits),
            spans=tuple(tuple((word.segment, word.start, word.end) for word in row.words) for row in self.rows),
            scores=tuple(tuple(saliency.word_scores) for saliency in saliencies),
            effects=tuple(effects),
            corrections=self._corrections(saliencies, predictions),
            groups=groups,
            provenance=self.explainer.provenance | facts,
            model=self,
        )

    def hide(self, audit: Audit, words: Sequence[str]) -> Effect:
        """What hiding some words together does in every text that has any of them, to the class of the first."""
        chosen = [word.casefold() for word in words]
        speaks_for = next(each.speaks_for for each in audit.effects if each.word == chosen[0])
        units = [[unit for unit in units_of(row) if unit.text.casefold() in chosen] for row in self.rows]
        having = [text for text, some in enumerate(units) if some]
        tables = [_coalitions(len(self.rows[text]), [_together(units[text])]) for text in having]
        logits = self.masked.logits([self.rows[text] for text in having], tables, Meter(None))
        odds = [log_odds(each)[:, speaks_for] for each in logits]
        pulls = tuple(float(before - after) for before, after in odds)
        without = tuple(int(each[1].argmax()) for each in logits)
        scores = (float("nan"),) * len(having)
        return Effect(", ".join(words), speaks_for, 0, tuple(having), scores, pulls, without)

    def _corrections(self, saliencies: Sequence[Saliency], predictions: Sequence[int]) -> tuple[Correction, ...]:
        """The smallest set of words of each mistake whose hiding corrects it."""
        gold, count = self.gold or predictions, len(saliencies)
        wrong = [text for text in range(count) if gold[text] != predictions[text]]
        part, corrections = self.meter.part(SHARES[2] * count, len(wrong)), []
        for text in wrong:
            part.check()
            flip = find_flip(saliencies[text], self.masked, gold[text], MOST, TRIED, Meter(None))
            corrections.append(Correction(text, flip.words, flip.places, flip.exact))
            part.step()
        part.reach(len(wrong) or 1)
        return tuple(corrections)


@dataclass(frozen=True)
class _Outcomes:
    """The log-odds of every class, [coalition, class], and the decision of each coalition of every text.

    The first coalition of a text is all of it, the others are without each of its words in `hidden`.
    """

    odds: Sequence[Floats]
    decided: Sequence[Sequence[int]]
    hidden: Sequence[Sequence[str]]

    def of(self, word: str) -> tuple[list[int], list[int]]:
        """The texts that have a word, and the coalition of each that lacks it."""
        having = [text for text, words in enumerate(self.hidden) if word in words]
        return having, [1 + self.hidden[text].index(word) for text in having]

    def pulls(self, having: Sequence[int], places: Sequence[int], index: int) -> tuple[float, ...]:
        """The change of the log-odds of a class that the word makes in each text."""
        pairs = zip(having, places, strict=True)
        return tuple(float(self.odds[text][0, index] - self.odds[text][at, index]) for text, at in pairs)


def _coalitions(size: int, units: Sequence[Unit]) -> Any:
    """The whole text, and the text without each of some words: [coalition, token]."""
    table = np.ones((len(units) + 1, size), dtype=bool)
    for coalition, unit in zip(table[1:], units, strict=True):
        coalition[list(unit.tokens)] = False
    return table


def _together(units: Sequence[Unit]) -> Unit:
    """Several words of a text as one."""
    tokens = tuple(token for unit in units for token in unit.tokens)
    return Unit(", ".join(unit.text for unit in units), tuple(place for unit in units for place in unit.places), tokens)


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
