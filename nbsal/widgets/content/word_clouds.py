"""The words of each class, in the order of the model's classes: their sizes, their texts, and what hiding them does."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nbsal.corpus.units import Units
from nbsal.evaluation.audit.result import Audit
from nbsal.evaluation.clouds import Cloud, display_word, unit_scores
from nbsal.explain.saliency import Saliency
from nbsal.model.text.token_text import is_byte_level
from nbsal.render import colours
from nbsal.render.colours import GREY, IDLE
from nbsal.render.headline import Phrase, in_row, percent, phrases, plain
from nbsal.render.sheet import Bar, Block, CellTable, Heading, Note, SizedWord, SizedWords
from nbsal.support.lazy import pandas
from nbsal.support.validation import plural
from nbsal.widgets.content.text_table import Listing, Remark, TablePage, are

NAMED_WORDS, NAMED_CLASSES = 3, 4  # words of a class, and classes, that the sentence names
BOTH = 2
SMALLEST, LARGEST = 12, 42  # pixels of type
MIN_TEXTS = 3  # with a word, from which it is drawn by its whole weight
MOST_TESTED = 200  # words
MANY_TEXTS = 30  # of a class, from which its words need so many

# How many texts each class has, and in how many of them each word scores for it.
Statistics = tuple[Mapping[str, int], Mapping[str, Mapping[str, int]]]
Changes = tuple[int, int]  # how many of so many decisions hiding a word changes


@dataclass(frozen=True)
class CloudWord:
    """A word of a cloud with its share of the largest weight; `texts` is None for a cloud without texts.

    The share of a word in too few of many texts is lower by as much: its weight says little about other texts.
    """

    word: str
    weight: float
    share: float
    texts: int | None
    also: Sequence[str]  # other classes that have it
    changes: Changes | None = None  # None: it was not hidden

    @property
    def state(self) -> str:
        """Whether hiding it "changes" decisions or is "idle", or whether it is only "ranked"."""
        return "ranked" if self.changes is None else "changes" if self.changes[0] else "idle"


@dataclass(frozen=True, eq=False)
class WordClouds:
    """Clouds of `count` words per class, and the page of the table of texts.

    `total` is the number of texts, of which `text_count` are explained; it is 0 for a finished Cloud, which has no
    texts. `model_labels` are the classes of the model. `audit` has the words that were hidden; `untested` says why
    there is none.
    """

    cloud: Cloud
    count: int
    table: TablePage
    text_count: int
    total: int
    model_labels: Sequence[str]
    statistics: Statistics
    audit: Audit | None
    untested: str

    @property
    def labels(self) -> list[str]:
        """The classes that were predicted, in the model's order."""
        return self.cloud.labels

    @cached_property
    def words(self) -> dict[str, list[CloudWord]]:
        """The words of each class, the largest first."""
        tops = {label: self._top(label) for label in self.labels}
        classes: dict[str, list[str]] = {}
        for label, top in tops.items():
            for word, _, _ in top:
                classes.setdefault(word, []).append(label)
        return {
            label: [
                CloudWord(
                    word,
                    weight,
                    size / top[0][2],
                    self.statistics[1][label][word] if self.text_count else None,
                    [other for other in classes[word] if other != label],
                    self.changes(label, word),
                )
                for word, weight, size in top
            ]
            for label, top in tops.items()
        }

    def changes(self, label: str, word: str) -> Changes | None:
        """How many decisions for a class hiding a word changes, of those about its texts; None: it was not hidden."""
        effect = self.effects.get(word)
        if self.audit is None or effect is None:
            return None
        own = self.audit.predictions
        decided = [
            (text, after)
            for text, after in zip(effect.texts, effect.without, strict=True)
            if self.audit.classes[own[text]] == label
        ]
        return sum(after != own[text] for text, after in decided), len(decided)

    def to_test(self) -> list[str]:
        """The words to hide: the largest of all classes first."""
        entries = sorted((entry for words in self.words.values() for entry in words), key=lambda entry: -entry.share)
        return list(dict.fromkeys(entry.word for entry in entries))[:MOST_TESTED]

    @property
    def shared(self) -> set[str]:
        return {entry.word for words in self.words.values() for entry in words if entry.also}

    @cached_property
    def hues(self) -> dict[str, int | None]:
        """The number of each class's hue: its place in the model if that has few classes, else by frequency."""
        classes = self.model_labels or self.labels
        if len(classes) <= len(colours.CLASSES) and {*self.labels} <= {*classes}:
            return {label: classes.index(label) for label in self.labels}
        texts = self.statistics[0]
        likeliest = sorted(self.labels, key=lambda label: -texts[label])[: len(colours.CLASSES)]
        coloured = [label for label in self.labels if label in likeliest]
        return {label: coloured.index(label) if label in coloured else None for label in self.labels}

    def caption(self) -> str:
        """What hiding words does, or the strongest words of each class, in one sentence."""
        return plain(self.sentence())

    def sentence(self) -> list[Phrase]:
        """What hiding the words of each class does; before they are hidden, those that scores rank first."""
        if not self.labels:
            return phrases(self.table.caption())
        clauses = [
            phrases(f"{'; for ' if i else ''}{label}: ", self._named(label)) for i, label in enumerate(self._first)
        ]
        more = len(self.labels) - len(clauses)
        rest = f"; {more} more class{'' if more == 1 else 'es'} below" if more else ""
        if self.audit is None:
            lead = f"{self._over()}ranked first for "
            return phrases(lead[0].upper() + lead[1:], *clauses, f"{rest} ({self.untested}).")
        states = Counter(entry.state for words in self.words.values() for entry in words)
        ranked = f" {states['ranked']} ranked, not tested." if states["ranked"] else ""
        if not states["changes"]:
            return phrases(f"Hiding any one of {plural(states['idle'], 'word')} changes no decision.{ranked}")
        idle = f" Hiding {plural(states['idle'], 'other word')} changes none." if states["idle"] else ""
        return phrases("Hiding a word changes decisions for ", *clauses, f"{rest}.{idle}{ranked}")

    @property
    def _first(self) -> list[str]:
        return self.labels[:NAMED_CLASSES]

    def _named(self, label: str) -> list[Phrase]:
        """The words of a class that the sentence names."""
        count = NAMED_WORDS if len(self._first) < NAMED_CLASSES else 1
        words = self.words[label]
        if self.audit is None:
            return in_row([[("class", entry.word)] for entry in words[:count]]) or phrases("no word")
        turning = [(entry, entry.changes) for entry in words if entry.changes is not None and entry.changes[0]]
        turning.sort(key=lambda pair: -pair[1][0])
        return in_row([phrases(("class", entry.word), f" {n} of {m}") for entry, (n, m) in turning[:count]]) or phrases(
            "none"
        )

    def _over(self) -> str:
        """By what the words are named."""
        if not self.text_count:
            return ""
        so_far = f"{self.text_count} of " if self.text_count < self.total else ""
        return f"By the scores of {so_far}{plural(self.total, 'text')}, "

    def overlap(self) -> str:
        if len(self.labels) == 1:
            return f"Every text was predicted {self.labels[0]}."
        who = "both classes" if len(self.labels) == BOTH else "several classes"
        if not self.shared:
            return f"No word is shared by {who}"
        listed = max(map(len, self.words.values()))
        return f"{plural(len(self.shared), 'word')} in {listed} {are(len(self.shared))} shared by {who}"

    def hint(self) -> str:
        """How to read the clouds."""
        bold = " Bold: hiding it changes decisions; italic: ranked, not tested." if self.audit else ""
        shared = " Underlined: shared by several classes." if self.shared else ""
        return f"Larger words score higher.{bold}{shared}"

    def to_choose(self) -> str:
        """What a reader can do with them where Python answers."""
        return " Select a word to read its texts." if self.text_count else ""

    def describe(self, label: str, entry: CloudWord) -> str:
        """What is known of a word, after its name."""
        texts = f" · in {plural(entry.texts, 'text')}" if entry.texts else ""
        also = f" · also {', '.join(entry.also)}" if entry.also else ""
        share = f"{percent(entry.share, 0)} of the strongest word"
        return f" · {label}{texts} · {share}{also} · {self.effect_of(label, entry.word)}"

    def effect_of(self, label: str, word: str) -> str:
        """What hiding a word does to decisions for a class, or that it was not hidden."""
        changes = self.changes(label, word)
        if changes is not None:
            return f"hiding it changes {changes[0]} of {plural(changes[1], 'decision')} for {label}"
        if self.audit is not None:
            return "ranked, not tested"
        return self.untested

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each class and word; `changes` are decisions of `tested` ones that hiding it changes."""
        rows = [
            (label, place, entry.word, entry.weight, entry.texts, bool(entry.also), *(entry.changes or (None, None)))
            for label, words in self.words.items()
            for place, entry in enumerate(words, 1)
        ]
        names = ["class", "place", self.cloud.unit, "weight", "texts", "shared", "changes", "tested"]
        return pandas.DataFrame(rows, columns=names)

    @cached_property
    def effects(self) -> dict[str, Any]:
        """What hiding each word does, by the word."""
        return {} if self.audit is None else {effect.word: effect for effect in self.audit.effects}

    def _top(self, label: str) -> list[tuple[str, float, float]]:
        """The first words, with their weights and what their sizes go by, the largest first."""
        words = [
            (word, weight, weight * (1 - self._rarity(label, word)))
            for word, weight in self.cloud.words(label, self.count)
        ]
        return sorted(words, key=lambda entry: -entry[2])

    def _rarity(self, label: str, word: str) -> float:
        """The share of the texts that a word lacks, of those that the words of a class with many texts need."""
        many = self.statistics[0].get(label, 0) >= MANY_TEXTS
        return max(0.0, 1 - self.statistics[1][label][word] / MIN_TEXTS) if many else 0.0


def count_words(saliencies: Sequence[Saliency] | Units, labels: Sequence[str], unit: str) -> Statistics:
    """Count the texts of each class and word."""
    if isinstance(saliencies, Units):
        return Counter(saliencies.classes.tolist()), saliencies.frequencies()
    texts, frequencies = Counter[str](), {label: Counter[str]() for label in labels}
    byte_level = _is_byte_level(saliencies, unit)
    for saliency in saliencies:
        texts[saliency.explained_class] += 1
        scores = Counter[str]()
        for name, score, _ in unit_scores(saliency, unit, normalise=False):
            scores[display_word(name, byte_level)] += score  # type: ignore[assignment]
        frequencies[saliency.explained_class].update(word for word, score in scores.items() if score > 0)
    return texts, frequencies


def texts_with(
    saliencies: Sequence[Saliency], unit: str, label: str, word: str
) -> list[tuple[int, Saliency, list[int]]]:
    """The texts of a class in which a word scores for it, with its positions; highest score first."""
    rows: list[tuple[float, int, Saliency, list[int]]] = []
    byte_level = _is_byte_level(saliencies, unit)
    for number, saliency in enumerate(saliencies):
        if saliency.explained_class != label:
            continue
        positions = places_of(saliency, unit, word, byte_level)
        score = float(sum(saliency.scores[i] for i in positions))
        if score > 0:
            rows.append((score, number, saliency, positions))
    rows.sort(key=lambda row: (-row[0], row[1]))
    return [row[1:] for row in rows]


def places_of(saliency: Saliency, unit: str, word: str, byte_level: bool) -> list[int]:
    """The positions of a word, or of a token, as a cloud displays it."""
    if unit == "word":
        named = ((entry.text.lower(), entry.tokens) for entry in saliency.words)
    else:
        named = ((saliency.tokens[i], (i,)) for i in saliency.row.content)
    return [i for name, tokens in named if display_word(name, byte_level) == word for i in tokens]


def listing_of(saliencies: Sequence[Saliency], unit: str, picked: Sequence[str], clouds: WordClouds) -> Listing:
    """The texts of a picked word, the strongest first, and what hiding it does to each."""
    label, word = picked
    texts = texts_with(saliencies, unit, label, word)
    byte_level = _is_byte_level(saliencies, unit)
    effect = clouds.effects.get(word)
    after = {} if effect is None else dict(zip(effect.texts, effect.without, strict=True))

    def remark(number: int) -> Remark | None:
        if clouds.audit is None or number not in after:
            return None
        changes = after[number] != clouds.audit.predictions[number]
        return "", f"→ {clouds.audit.classes[after[number]]} without it" if changes else "with or without it"

    count = f"in {plural(len(texts), 'text')}" if texts else "in no text"
    order = ", strongest first" if len(texts) > 1 else ""
    heading = phrases(("class", f"“{word}”"), f" scores for {label} {count}{order}")
    said = clouds.effect_of(label, word)
    numbers = [number for number, *_ in texts]
    sentence = phrases(f"{said[0].upper()}{said[1:]}.")
    return Listing(heading, numbers, lambda saliency: places_of(saliency, unit, word, byte_level), remark, sentence)


def _is_byte_level(saliencies: Sequence[Saliency], unit: str) -> bool:
    """Whether the units are the tokens of a byte-level tokenizer."""
    return unit == "token" and any(is_byte_level(saliency.tokens) for saliency in saliencies)


def arranged(cloud: Cloud, labels: Sequence[str]) -> Cloud:
    """A cloud with its classes in the order of the model's."""
    order = {label: place for place, label in enumerate(labels)}
    classes = sorted(cloud.labels, key=lambda label: order.get(label, len(order)))
    return Cloud({label: cloud.weights[label] for label in classes}, cloud.unit)


def cloud_traits(clouds: WordClouds, label: str) -> dict[str, Any]:
    """A cloud as the page draws it."""
    words = [
        {
            "word": entry.word,
            "share": round(entry.share, 4),
            "state": entry.state,
            "line": clouds.describe(label, entry),
            "cells": [
                percent(entry.share, 0),
                "" if entry.texts is None else plural(entry.texts, "text"),
                "not tested" if entry.changes is None else f"changes {entry.changes[0]} of {entry.changes[1]}",
            ],
            "shared": bool(entry.also),
        }
        for entry in clouds.words[label]
    ]
    texts = {"note": predicted(clouds, label), "empty": no_words(label)}
    return {"label": label, "hue": clouds.hues[label], "words": words} | texts


def cloud_blocks(clouds: WordClouds, label: str, form: str) -> list[Block]:
    """The words of a class in order, larger if they weigh more; or as bars, if the `form` is "list"."""
    cloud = cloud_traits(clouds, label)
    heading, drawn = Heading(phrases(label), cloud["note"]), cloud["words"]
    if not drawn:
        return [heading, Note(cloud["empty"])]
    if form == "list":
        hue = GREY if cloud["hue"] is None else cloud["hue"]
        hues = [hue if each["state"] == "changes" else IDLE for each in drawn]
        rows = [
            (each["word"], Bar(each["share"], hue=hue), *each["cells"]) for each, hue in zip(drawn, hues, strict=True)
        ]
        return [heading, CellTable(rows, right=(2, 3, 4))]
    words = [
        SizedWord(
            each["word"],
            max(SMALLEST, LARGEST * each["share"]),
            each["state"] == "changes",
            each["state"] == "ranked",
            each["shared"],
            f"{each['word']}{each['line']}",
        )
        for each in drawn
    ]
    return [heading, SizedWords(words, cloud["hue"])]


def no_words(label: str) -> str:
    """What stands in place of a cloud without words."""
    return f"No word scores for {label}."


def predicted(clouds: WordClouds, label: str) -> str:
    """For how many texts a class was predicted."""
    if not clouds.text_count:
        return "predicted class"
    return f"predicted for {plural(clouds.statistics[0][label], 'text')}"
