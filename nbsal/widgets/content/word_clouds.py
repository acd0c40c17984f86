"""The words of each class, in the order of the model's classes: their sizes, their texts, what they share."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nbsal.corpus.units import Units
from nbsal.evaluation.clouds import Cloud, display_word, unit_scores
from nbsal.explain.saliency import Saliency
from nbsal.model.text.token_text import is_byte_level
from nbsal.render import colours
from nbsal.support.lazy import pandas
from nbsal.support.validation import plural
from nbsal.widgets.content.text_table import are

NAMED_WORDS, NAMED_CLASSES = 3, 4  # words of a class, and classes, that the sentence names
BOTH = 2
MAX_TEXTS = 20  # in the list of a word's texts
MIN_TEXTS = 3  # with a word, from which it is drawn by its weight
MANY_TEXTS = 30  # of a class, from which its words need so many

Piece = tuple[str, int | None, bool]  # a piece of a sentence: text, hue of its class, whether it is a word of a cloud


@dataclass(frozen=True)
class CloudWord:
    """A word of a cloud with its share of the largest weight; `texts` is None for a cloud without texts.

    A word of too few texts has no share: its weight says little about other texts.
    """

    word: str
    weight: float
    share: float | None
    texts: int | None
    also: Sequence[str]  # other classes that have it


@dataclass(frozen=True, eq=False)
class WordClouds:
    """Clouds of `count` words per class, and the texts of the word that is picked.

    A text is (number, saliency, positions of the word). `total` is the number of texts, of which `text_count` are
    explained; it is 0 for a finished Cloud, which has no texts. `model_labels` are the classes of the model.
    """

    cloud: Cloud
    count: int
    picked: tuple[str, str] | None
    texts: Sequence[tuple[int, Saliency, list[int]]]
    text_count: int
    total: int
    model_labels: Sequence[str]
    statistics: "Statistics"

    @property
    def labels(self) -> list[str]:
        """The classes that were predicted, in the model's order."""
        return self.cloud.labels

    @cached_property
    def words(self) -> dict[str, list[CloudWord]]:
        """The words of each class, the largest first, and after them those of too few texts."""
        tops = {label: self._top(label) for label in self.labels}
        classes: dict[str, list[str]] = {}
        for label, top in tops.items():
            for word, _ in top:
                classes.setdefault(word, []).append(label)
        return {
            label: [
                CloudWord(
                    word,
                    weight,
                    None if self._is_rare(label, word) else weight / top[0][1],
                    self.statistics.frequencies[label][word] if self.text_count else None,
                    [other for other in classes[word] if other != label],
                )
                for word, weight in top
            ]
            for label, top in tops.items()
        }

    def _top(self, label: str) -> list[tuple[str, float]]:
        """The first words, with their weights; those of too few texts come last."""
        return sorted(self.cloud.words(label, self.count), key=lambda entry: self._is_rare(label, entry[0]))

    def _is_rare(self, label: str, word: str) -> bool:
        """Whether too few of a class's many texts have a word."""
        statistics = self.statistics
        many = statistics.texts.get(label, 0) >= MANY_TEXTS
        return many and statistics.frequencies[label][word] < MIN_TEXTS

    @property
    def shared(self) -> set[str]:
        return {entry.word for words in self.words.values() for entry in words if entry.also}

    @property
    def has_rare(self) -> bool:
        """Whether any word has too few texts."""
        return any(entry.share is None for words in self.words.values() for entry in words)

    @cached_property
    def hues(self) -> dict[str, int | None]:
        """The number of each class's hue: its place in the model if that has few classes, else by frequency."""
        classes = self.model_labels or self.labels
        if len(classes) <= len(colours.CLASSES) and {*self.labels} <= {*classes}:
            return {label: classes.index(label) for label in self.labels}
        texts = self.statistics.texts
        likeliest = sorted(self.labels, key=lambda label: -texts[label])[: len(colours.CLASSES)]
        coloured = [label for label in self.labels if label in likeliest]
        return {label: coloured.index(label) if label in coloured else None for label in self.labels}

    def caption(self) -> str:
        """The strongest words of each class, in one sentence."""
        return "".join(text for text, *_ in self.sentence())

    def sentence(self) -> list[Piece]:
        """The words of each class that scores rank first, in pieces."""
        classes = self.labels[:NAMED_CLASSES]
        count = NAMED_WORDS if len(classes) < NAMED_CLASSES else 1
        lead = f"{self._over()}ranked first for "
        pieces: list[Piece] = [(lead[0].upper() + lead[1:], None, False)]
        for i, label in enumerate(classes):
            words = [entry.word for entry in self.words[label][:count] if entry.share is not None]
            none = f"no word of {MIN_TEXTS} texts" if self.words[label] else "no word"
            pieces += [(f"{'; for ' if i else ''}{label}: ", None, False), *_list(words, self.hues[label], none)]
        more = len(self.labels) - len(classes)
        end = f"; {more} more class{'' if more == 1 else 'es'} below." if more else "."
        return [piece for piece in [*pieces, (end, None, False)] if piece[0]]

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

    def hint(self, static: bool = False) -> str:
        """How to read the clouds; nothing can be chosen in those that are `static`."""
        choose = " Select a word to read its texts." if self.text_count and not static else ""
        shared = " · underlined: shared by several classes" if self.shared else ""
        few = f" · words in fewer than {MIN_TEXTS} texts are listed, not drawn" if self.has_rare else ""
        return f"Larger words score higher.{choose}{few}{shared}"

    def picked_heading(self) -> tuple[str, str]:
        """In how many texts the picked word scores for its class, and which texts are listed."""
        if self.picked is None:
            return "", ""
        label, word = self.picked
        if not self.text_count:
            return "This cloud was saved without its texts.", ""
        count = len(self.texts)
        if not count:
            return f"“{word}” scores for {label} in no text.", ""
        listed = f"the strongest {MAX_TEXTS}" if count > MAX_TEXTS else "strongest first" if count > 1 else ""
        return f"“{word}” scores for {label} in {plural(count, 'text')}", listed

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each class and word."""
        rows = [
            (label, place, entry.word, entry.weight, entry.texts, bool(entry.also))
            for label, words in self.words.items()
            for place, entry in enumerate(words, 1)
        ]
        return pandas.DataFrame(rows, columns=["class", "place", self.cloud.unit, "weight", "texts", "shared"])


@dataclass(frozen=True)
class Statistics:
    """How many texts each class has, and in how many of them each word scores for it."""

    texts: Mapping[str, int]
    frequencies: Mapping[str, Mapping[str, int]]

    @classmethod
    def of(cls, saliencies: Sequence[Saliency] | Units, labels: Sequence[str], unit: str) -> "Statistics":
        """Count the texts of each class and word."""
        if isinstance(saliencies, Units):
            return cls(Counter(saliencies.classes.tolist()), saliencies.frequencies())
        texts: Counter[str] = Counter(saliency.explained_class for saliency in saliencies)
        frequencies: dict[str, Counter[str]] = {label: Counter() for label in labels}
        byte_level = _is_byte_level(saliencies, unit)
        for saliency in saliencies:
            scores: Counter[str] = Counter()
            for name, score, _ in unit_scores(saliency, unit, normalise=False):
                scores[display_word(name, byte_level)] += score  # type: ignore[assignment]
            frequencies[saliency.explained_class].update(word for word, score in scores.items() if score > 0)
        return cls(texts, frequencies)


def texts_with(
    saliencies: Sequence[Saliency], unit: str, label: str, word: str
) -> list[tuple[int, Saliency, list[int]]]:
    """The texts of a class in which a word scores for it, with its positions; highest score first."""
    rows: list[tuple[float, int, Saliency, list[int]]] = []
    byte_level = _is_byte_level(saliencies, unit)
    for number, saliency in enumerate(saliencies):
        if saliency.explained_class != label:
            continue
        if unit == "word":
            named = ((entry.text.lower(), entry.tokens) for entry in saliency.words)
        else:
            named = ((saliency.tokens[i], (i,)) for i in saliency.row.content)
        positions = [i for name, tokens in named if display_word(name, byte_level) == word for i in tokens]
        score = float(sum(saliency.scores[i] for i in positions))
        if score > 0:
            rows.append((score, number, saliency, positions))
    rows.sort(key=lambda row: (-row[0], row[1]))
    return [row[1:] for row in rows]


def _is_byte_level(saliencies: Sequence[Saliency], unit: str) -> bool:
    """Whether the units are the tokens of a byte-level tokenizer."""
    return unit == "token" and any(is_byte_level(saliency.tokens) for saliency in saliencies)


def _list(words: Sequence[str], hue: int | None, none: str) -> list[Piece]:
    """Words of a class, joined as in a sentence; or that there is none."""
    pieces: list[Piece] = []
    for i, word in enumerate(words):
        joint = "" if not i else " and " if i == len(words) - 1 else ", "
        pieces += [(joint, None, False), (word, hue, True)]
    return pieces or [(none, None, False)]


def arranged(cloud: Cloud, labels: Sequence[str]) -> Cloud:
    """A cloud with its classes in the order of the model's."""
    order = {label: place for place, label in enumerate(labels)}
    classes = sorted(cloud.labels, key=lambda label: order.get(label, len(order)))
    return Cloud({label: cloud.weights[label] for label in classes}, cloud.unit)


def cloud_traits(clouds: WordClouds, label: str) -> dict[str, Any]:
    """A cloud as the page draws it."""
    words = [
        {"word": entry.word, "share": entry.share and round(entry.share, 4), "texts": entry.texts}
        | ({"also": list(entry.also)} if entry.also else {})
        for entry in clouds.words[label]
    ]
    texts = clouds.statistics.texts[label] if clouds.text_count else None
    return {"label": label, "hue": clouds.hues[label], "texts": texts, "words": words}
