"""Word clouds of the tokens that a model uses for each of its classes (Hou and Castanon 2023, section 4.3).

The scores of a text's content tokens count for the class that was explained, by default the one that the model predicts
for the text. They are summed over texts and weighted by how rare the token is in everyday text.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from nbsal.explain.saliency import Saliency
from nbsal.methods.lazy import Subject
from nbsal.model.text.token_text import SPACE_MARKS, entities, is_byte_level, token_text
from nbsal.render import colours, fonts, html
from nbsal.samples import idf as wikitext_idf
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.lazy import Figure, pandas, pyplot
from nbsal.support.validation import Text, checked, positive_number, text_list

__all__ = ("Cloud", "inverse_document_frequency", "rank")

UNITS = ("token", "word")
LONGEST = 30  # characters of a token in a picture

UnitGroup = tuple[str, str, tuple[str, ...], list[float]]  # class, name, tokens of its first occurrence, scores


@checked
@dataclass(frozen=True, eq=False)
class Cloud:
    """Weights of tokens, or of words, by explained class.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> cloud = rank(explain.map(["A warm and funny film.", "A dull bore."], progress=False))
    >>> cloud.labels, cloud.overlap(1)
    (['negative', 'positive'], 0.0)
    """

    weights: Mapping[str, Mapping[str, float]]
    unit: str = "token"

    @property
    def labels(self) -> list[str]:
        """The classes that were explained."""
        return list(self.weights)

    def top(self, label: str, count: int = 50) -> "pandas.DataFrame":
        """The `count` tokens with the largest weights for a class, largest first."""
        return pandas.DataFrame(self._best(label, count), columns=[self.unit, "weight"])

    def shared(self, count: int = 50) -> "pandas.DataFrame":
        """For every pair of classes, the tokens with a positive weight that are among the first `count` of both."""
        rows, count = [], positive_number(count, "count")
        for first, second in combinations(self.labels, 2):
            second_tokens = set(self._positive(second)[:count])
            both = [token for token in self._positive(first)[:count] if token in second_tokens]
            rows.append((first, second, len(both), ", ".join(both)))
        return pandas.DataFrame(rows, columns=["first", "second", "shared", f"{self.unit}s"])

    def overlap(self, count: int = 50) -> float:
        """The share of the first `count` tokens that two classes have in common, averaged over all pairs of classes.

        Only tokens with a positive weight count. If a class has fewer than `count` of them, its empty places are shared
        with no class, so the share stays below 1.
        """
        count = positive_number(count, "count")
        if len(self.weights) < 2:
            raise InputError(f"The overlap needs texts of two explained classes, but the only class is {self.labels}.")
        frame = self.shared(count)
        return float(frame["shared"].sum() / (len(frame) * count))

    def wordcloud(
        self,
        label: str,
        count: int = 50,
        size: tuple[int, int] = (600, 300),
        seed: int = 0,
        colour: str | None = None,
        smallest: int = 1,
    ) -> Any:
        """An image of the first tokens of a class, with larger type for larger weights.

        Each class has a `colour` of its own by default. `smallest` is the size in pixels below which no type falls; the
        type is then less different in size, and tokens for which there is no place are left out.
        """
        from matplotlib.colors import is_color_like

        if colour is not None and not is_color_like(colour):
            message = f"colour must be the name or the code of a colour, not {colour!r:.60}."
            raise InputError(message, argument="colour", value=colour)
        weights = dict(self.words(label, count))
        if not weights:
            message = f"No {self.unit} has a positive weight for label={label!r}, so there is nothing to draw."
            raise InputError(message, argument="label", value=label)
        return draw_words(weights, colour or colours.class_colour(self.labels.index(label)), size, seed, smallest)

    def display(self, token: str) -> str:
        """A token or word of this cloud as a picture shows it."""
        return display_word(token, self.unit == "token" and self._byte_level)

    @cached_property
    def _byte_level(self) -> bool:
        return any(is_byte_level(weights) for weights in self.weights.values())

    def words(self, label: str, count: int = 50) -> list[tuple[str, float]]:
        """The first tokens of a class that speak for it, as a picture shows them, with their weights.

        >>> Cloud({"positive": {"joy": 2.0, "film": -1.0}}).words("positive")
        [('joy', 2.0)]
        """
        weights: dict[str, float] = {}
        for token, weight in self._best(label, count):
            word = self.display(token)
            if weight > 0 and word:
                weights[word] = weights.get(word, 0.0) + weight
        return sorted(weights.items(), key=lambda item: -item[1])

    def plot(self, count: int = 50) -> "Figure":
        """One word cloud for each class, side by side."""
        size = (4.5 * len(self.labels), 2.8)
        figure, axes = pyplot.subplots(1, len(self.labels), figsize=size, layout="constrained", squeeze=False)
        for ax, label in zip(axes[0], self.labels, strict=True):
            ax.imshow(np.asarray(self.wordcloud(label, count)), interpolation="bilinear")
            ax.set_title(html.visible(label), parse_math=False, fontfamily=fonts.families(label))
            ax.axis("off")
        return figure

    def _best(self, label: str, count: int) -> list[tuple[str, float]]:
        return self._ordered(label)[: positive_number(count, "count")]

    def _ordered(self, label: str) -> list[tuple[str, float]]:
        if label not in self.weights:
            raise UnknownName("label", label, self.labels)
        return sorted(self.weights[label].items(), key=lambda item: (-item[1], item[0]))

    def _positive(self, label: str) -> list[str]:
        return [token for token, weight in self._ordered(label) if weight > 0]


@checked
def draw_words(
    weights: Mapping[str, float], colour: str, size: tuple[int, int] = (600, 300), seed: int = 0, smallest: int = 1
) -> Any:
    """An image of words whose type is as large as their weights; with `smallest` as in `Cloud.wordcloud`."""
    from wordcloud import WordCloud

    picture = WordCloud(
        width=size[0],
        height=size[1],
        font_path=fonts.best_font(weights),
        prefer_horizontal=1,
        relative_scaling=1 if smallest == 1 else 0.3,
        min_font_size=smallest,
        margin=max(2, size[1] // 40),  # pixels, so that words do not touch
        random_state=seed,
        max_words=len(weights),
        background_color="white",
        color_func=lambda *_, **__: colour,
    )
    return picture.generate_from_frequencies(weights).to_image()


@checked
def rank(
    saliencies: Iterable[Saliency],
    idf: Mapping[str, float] | None = None,
    *,
    unit: str = "token",
    normalise: bool = True,
) -> Cloud:
    """Sum the scores of each token by explained class and weight them by the token's rarity.

    `idf` is a table such as `nbsal.clouds.inverse_document_frequency(texts, subject)` returns; the default is a table
    of WikiText-2. A token that the table lacks counts as the rarest token, a word that it lacks as its rarest token.
    `normalise` divides the scores of a text by the sum of their absolute values, so that every text counts alike.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradxact", layer=5)
    >>> rank([explain("A joy."), explain("What a joy!")], unit="word").top("positive", 1)["word"].item()
    'joy'
    """
    return weigh(_groups(saliencies, unit, normalise), idf, unit)


@checked
def weigh(groups: Iterable[UnitGroup], idf: Mapping[str, float] | None, unit: str) -> Cloud:
    """The cloud of scores that are grouped by class and name: their sums, weighted by rarity as in `rank`."""
    if unit not in UNITS:
        raise UnknownName("unit", unit, UNITS)
    table = wikitext_idf.load() if idf is None else idf
    rarest = max(table.values(), default=1.0)
    rarity: dict[str, float] = {}
    weights: dict[str, dict[str, float]] = defaultdict(dict)
    for label, name, tokens, scores in groups:
        if name not in rarity:
            entry = table.get(plain_token(name))
            rarity[name] = max(table.get(plain_token(t), rarest) for t in tokens) if entry is None else entry
        weights[label][name] = math.fsum(scores) * rarity[name]  # an exact sum does not depend on the order of texts
    if not weights:
        raise InputError("saliencies is empty. Pass at least one Saliency.", argument="saliencies", value=None)
    return Cloud({label: weights[label] for label in sorted(weights)}, unit)


def _groups(saliencies: Any, unit: str, normalise: bool) -> Iterator[UnitGroup]:
    """The scores of all texts by class and name."""
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    tokens_of: dict[str, tuple[str, ...]] = {}
    for saliency in _check_saliencies(saliencies):
        for name, score, tokens in unit_scores(saliency, unit, normalise):
            scores[saliency.explained_class][name].append(score)
            tokens_of.setdefault(name, tokens)
    for label, names in scores.items():
        yield from ((label, name, tokens_of[name], values) for name, values in names.items())


def _check_saliencies(saliencies: Iterable[Any]) -> Iterator[Saliency]:
    rule = "saliencies must be a sequence of Saliency such as explain.map(texts)"
    for saliency in saliencies:
        if not isinstance(saliency, Saliency):
            message = f"{rule}, but it contains {type(saliency).__name__}."
            raise InputError(message, argument="saliencies", value=saliency)
        if not saliency.probabilities.size:
            message = f"{saliency.text!r:.80} has values instead of a predicted class: the model is a regression."
            raise InputError(message, argument="saliencies", value=saliency)
        yield saliency


@checked
def unit_scores(saliency: Saliency, unit: str, normalise: bool) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Yield the name, the score and the tokens of each content token, or of each word, of a text."""
    scores, content = saliency.scores.astype(float), list(saliency.row.content)
    if not np.isfinite(scores[content]).all():
        message = f"A score of {saliency.text!r:.80} is NaN or infinite. Leave this text out."
        raise InputError(message, argument="saliencies", value=saliency)
    total = np.abs(scores[content]).sum() if normalise else 1.0
    scores = scores / total if total else scores
    if unit == "token":
        yield from ((saliency.tokens[i], float(scores[i]), (saliency.tokens[i],)) for i in content)
        return
    markup = [entities(part) for part in saliency.row.parts]
    for word in saliency.words:
        if any(start <= word.start < end for start, end in markup[word.segment]):
            continue  # "39" of "&#39;" is no word
        tokens = tuple(saliency.tokens[i] for i in word.tokens)
        yield word.text.lower(), float(scores[list(word.tokens)].sum()), tokens


@checked
def inverse_document_frequency(texts: Iterable[Text], subject: Subject) -> dict[str, float]:
    """The rarity of each token and each word in some texts: log((1 + texts) / (1 + texts that contain it)).

    >>> import nbsal
    >>> table = inverse_document_frequency(["A joy.", "A bore."], nbsal.load("demo/reviews"))
    >>> table["a"], round(table["joy"], 3)
    (0.0, 0.405)
    """
    rows = subject.encode(list(text_list(texts)))
    counts = Counter[str]()
    for row in rows:
        counts.update({plain_token(row.tokens[i]) for i in row.content} | {word.text.lower() for word in row.words})
    return {name: math.log((1 + len(rows)) / (1 + count)) for name, count in counts.items()}


@checked
def display_word(token: str, byte_level: bool = False) -> str:
    """A token or word as a cloud displays it, without the marks of tokenizers.

    Of a `byte_level` tokenizer, bytes are decoded. A long word is shortened because wordcloud fails on words wider than
    the image.

    >>> display_word("Ġfilm"), display_word("##ing"), len(display_word("o" * 200))
    ('film', 'ing', 30)
    """
    word = html.visible(token_text(token, byte_level)).strip()
    return word if len(word) <= LONGEST else word[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


@checked
def plain_token(token: str) -> str:
    """A token as a key of the tables of rarity: in lower case and without the mark of a leading space."""
    return token.lstrip(SPACE_MARKS).lower() or token


def __dir__() -> list[str]:
    return sorted(__all__)
