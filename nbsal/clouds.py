"""Clouds: which tokens a model takes for each of its classes, over many texts (Hou and Castanon 2023, section 4.3).

The scores of a text's content tokens are credited to the class it is predicted to be, summed over texts, and weighted
by how rare the token is in everyday text.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from nbsal.errors import InputError, UnknownName
from nbsal.model.subject import Subject
from nbsal.render import colours, fonts, html
from nbsal.saliency import Saliency
from nbsal.samples import idf as sampled
from nbsal.validation import Text, text_list

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

UNITS = ("token", "word")
_KIND = "Tokens are ranked over a sequence of Saliency, as explain.map(texts) gives it, not over {}."
MARKS = "Ġ▁"  # a leading space, as byte-level and sentence-piece tokenizers write it
LONGEST = 30  # characters of a token in a picture
HUE = colours.hex_colour((0, 90, 160))


@dataclass(frozen=True, eq=False)
class Cloud:
    """Weighted scores of tokens, or words, by class.

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
        """The classes that were predicted."""
        return list(self.weights)

    def top(self, label: str, count: int = 50) -> "pandas.DataFrame":
        """The tokens of most weight for a class, best first."""
        import pandas

        return pandas.DataFrame(self._best(label, count), columns=[self.unit, "weight"])

    def shared(self, count: int = 50) -> "pandas.DataFrame":
        """For every pair of classes, the tokens among the first `count` of both."""
        import pandas

        rows = []
        for first, second in combinations(self.labels, 2):
            theirs = {token for token, _ in self._best(second, count)}
            both = [token for token, _ in self._best(first, count) if token in theirs]
            rows.append((first, second, len(both), ", ".join(both)))
        return pandas.DataFrame(rows, columns=["first", "second", "shared", f"{self.unit}s"])

    def overlap(self, count: int = 50) -> float:
        """The share of the first `count` tokens that two classes have in common, over all pairs of classes."""
        if len(self.weights) < 2:
            raise InputError(f"Only {self.labels} was predicted: an overlap needs texts of two classes.")
        if count < 1:
            raise InputError(f"The overlap is of a number of tokens from 1, not {count}.")
        frame = self.shared(count)
        return float(frame["shared"].sum() / (len(frame) * count))

    def wordcloud(self, label: str, count: int = 50, size: tuple[int, int] = (600, 300), seed: int = 0) -> Any:
        """The class's first tokens as an image, larger where they weigh more."""
        return self._drawn(label, count, size, seed).to_image()

    def layout(
        self, label: str, count: int = 50, size: tuple[int, int] = (600, 300), seed: int = 0
    ) -> list[tuple[str, float, int, int, int]]:
        """Where each of these tokens stands in that image: the token, its share of the largest weight, its font size
        in pixels, and the left and upper corner of its line.

        >>> Cloud({"positive": {"joy": 2.0, "film": 1.0}}).layout("positive")[0][:2]
        ('joy', 1.0)
        """
        placed = self._drawn(label, count, size, seed).layout_
        return [(token, float(share), font, int(x), int(y)) for (token, share), font, (y, x), _, _ in placed]

    def font(self, label: str, count: int = 50) -> str:
        """The file of the font in which these tokens are laid out."""
        return fonts.best_families(display_word(token) for token, _ in self._best(label, count))

    def _drawn(self, label: str, count: int, size: tuple[int, int], seed: int) -> Any:
        from wordcloud import WordCloud

        sizes: dict[str, float] = {}
        for token, weight in self._best(label, count):
            shown = display_word(token)
            if weight > 0 and shown:
                sizes[shown] = sizes.get(shown, 0.0) + weight
        if not sizes:
            raise InputError(f"No {self.unit} speaks for {label!r}: there is nothing to draw.")
        settings = {
            "font_path": self.font(label, count),
            "prefer_horizontal": 1,
            "random_state": seed,
            "max_words": count,
        }
        colours = {"background_color": "white", "color_func": lambda *_, **__: HUE}
        drawn = WordCloud(width=size[0], height=size[1], **settings, **colours)
        return drawn.generate_from_frequencies(sizes)

    def plot(self, count: int = 50) -> "Figure":
        """A cloud a class, side by side."""
        from matplotlib import pyplot

        size = (4.5 * len(self.labels), 2.8)
        figure, axes = pyplot.subplots(1, len(self.labels), figsize=size, layout="constrained", squeeze=False)
        for ax, label in zip(axes[0], self.labels, strict=True):
            ax.imshow(np.asarray(self.wordcloud(label, count)), interpolation="bilinear")
            ax.set_title(html.visible(label), parse_math=False, fontfamily=fonts.families(label))
            ax.axis("off")
        return figure

    def _best(self, label: str, count: int) -> list[tuple[str, float]]:
        if label not in self.weights:
            raise UnknownName("predicted class", label, self.labels)
        ordered = sorted(self.weights[label].items(), key=lambda item: (-item[1], item[0]))
        return ordered[:count]


def rank(
    saliencies: Iterable[Saliency],
    idf: Mapping[str, float] | None = None,
    *,
    unit: str = "token",
    normalise: bool = True,
) -> Cloud:
    """Sum scores by predicted class and weigh them by rarity.

    `idf` is a table such as `nbsal.clouds.rarity(texts, subject)` makes; without one that of WikiText is used. A token
    that it does not hold counts as the rarest, a word as its rarest token. `normalise` divides the scores of a text by
    the sum of their sizes, so that every text has one vote.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradxact", layer=5)
    >>> rank([explain("A joy."), explain("What a joy!")], unit="word").top("positive", 1)["word"].item()
    'joy'
    """
    if unit not in UNITS:
        raise UnknownName("unit", unit, UNITS)
    if not isinstance(saliencies, Iterable):
        raise InputError(_KIND.format(type(saliencies).__name__))
    if idf is not None and not isinstance(idf, Mapping):
        raise InputError(f"idf is a dict such as nbsal.clouds.rarity(texts, subject), not {type(idf).__name__}.")
    table = sampled.load() if idf is None else idf
    rarest = max(table.values(), default=1.0)
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rare: dict[str, float] = {}
    for saliency in saliencies:
        if not isinstance(saliency, Saliency):
            raise InputError(_KIND.format(type(saliency).__name__))
        for name, score, parts in unit_scores(saliency, unit, normalise):
            found[saliency.prediction][name].append(score)
            if name not in rare:
                known = table.get(plain_token(name))
                rare[name] = max(table.get(plain_token(part), rarest) for part in parts) if known is None else known
    if not found:
        raise InputError("There is no saliency to rank tokens by: the list is empty.")
    # An exact sum does not depend on the order of texts.
    summed = {label: {name: math.fsum(found[label][name]) * rare[name] for name in found[label]} for label in found}
    return Cloud(dict(sorted(summed.items())), unit)


def unit_scores(saliency: Saliency, unit: str, normalise: bool) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """What a text gives to each of its tokens, or words, and the tokens these consist of.

    >>> import nbsal
    >>> found = nbsal.Explainer(nbsal.load("demo/reviews"), "simple")("A joy.")
    >>> [name for name, *_ in unit_scores(found, "word", normalise=True)]
    ['a', 'joy', '.']
    """
    scores, content = saliency.scores.astype(float), list(saliency.row.content)
    if not np.isfinite(scores[content]).all():
        raise InputError(f"A score of {saliency.text!r:.80} is NaN or infinite: leave the text out.")
    size = np.abs(scores[content]).sum() if normalise else 1.0
    scores = scores / size if size else scores
    if unit == "token":
        yield from ((saliency.tokens[i], float(scores[i]), (saliency.tokens[i],)) for i in content)
    else:
        for word in saliency.words:
            yield (
                word.text.lower(),
                float(scores[list(word.tokens)].sum()),
                tuple(saliency.tokens[i] for i in word.tokens),
            )


def inverse_document_frequency(texts: Iterable[Text], subject: Subject) -> dict[str, float]:
    """How rare each token of a model, and each word, is in those texts: log((1 + texts) / (1 + texts that have it)).

    >>> import nbsal
    >>> table = inverse_document_frequency(["A joy.", "A bore."], nbsal.load("demo/reviews"))
    >>> table["a"] < table["joy"]
    True
    """
    many = list(text_list(texts))
    if not many:
        raise InputError("There is no text to count tokens in: the list is empty.")
    counts = Counter[str]()
    for row in subject.encode(many):
        counts.update({plain_token(row.tokens[i]) for i in row.content} | {word.text.lower() for word in row.words})
    return {token: math.log((1 + len(many)) / (1 + count)) for token, count in counts.items()}


def display_word(token: str) -> str:
    """A token as its cloud shows it: wordcloud gives up at one that is too long for the picture.

    >>> len(display_word("o" * 200))
    30
    """
    shown = html.visible(token).strip()
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


def plain_token(token: str) -> str:
    """A token as tables of rarity name it: no mark of a leading space, no capitals.

    >>> plain_token("ĠFilm"), plain_token("▁a"), plain_token("##ing")
    ('film', 'a', '##ing')
    """
    return token.lstrip(MARKS).lower() or token
