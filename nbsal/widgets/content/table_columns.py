"""The columns by which a table of explained texts is sorted and filtered, each computed when it is first needed."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.corpus.dataset import Corpus
from nbsal.explain.saliency import Saliency

Array = NDArray[Any]
STORED = {"text": Corpus.texts, "prediction": Corpus.predictions, "confidence": Corpus.confidences}


class Columns:
    """The columns of a table, one entry per explained text; `labels` are those of all texts, if they have any."""

    def __init__(self, labels: Sequence[str] | None = None) -> None:
        self._labels = labels
        self._saliencies: Sequence[Saliency] = []
        self._check: Callable[[], None] = lambda: None
        self._values: dict[str, Array] = {}

    def __len__(self) -> int:
        return len(self._saliencies)

    def update(self, saliencies: Sequence[Saliency], check: Callable[[], None] = lambda: None) -> None:
        """Set the texts that are explained so far, those set before first; `check` may raise, to cancel."""
        self._saliencies, self._check = saliencies, check

    @property
    def is_labelled(self) -> bool:
        return self._labels is not None

    def label(self, number: int) -> str | None:
        """The label of a text, if it has one."""
        return None if self._labels is None else self._labels[number]

    def misclassified(self) -> Array:
        """Whether the prediction of each text differs from its label."""
        if self._labels is None:
            return np.zeros(len(self), bool)
        return np.array(self.values("prediction") != self.values("label"), bool)

    def values(self, name: str) -> Array:
        """The column number, text, prediction, confidence (NaN for none), label or top."""
        saliencies = self._saliencies
        count = len(saliencies)
        if name == "number":
            return np.arange(count)
        if name == "label":
            return _objects([None] * count if self._labels is None else self._labels[:count])
        values = self._values.get(name, np.empty(0, object))
        if len(values) < count:
            values = self._values[name] = np.concatenate([values, self._read(saliencies, name, len(values))])
        return values[:count]

    def containing(self, part: str) -> Array:
        """Whether each text contains a part, in upper or lower case."""
        return np.array([part.casefold() in text.casefold() for text in self.values("text")], bool)

    def _read(self, saliencies: Sequence[Saliency], name: str, first: int) -> Array:
        """The values of a column from text `first`."""
        if isinstance(saliencies, Corpus) and name in STORED:
            return STORED[name](saliencies)[first:]
        values = []
        for saliency in islice(saliencies, first, None):
            self._check()
            values.append(READERS[name](saliency))
        return _objects(values)


def strongest_word(saliency: Saliency) -> tuple[str, list[int]]:
    """The word with the largest score, for or against what is explained, as typed, and its tokens.

    Of equals it is the one that is ranked first.
    """
    if not saliency.words:
        first = max(saliency.order, key=lambda i: abs(saliency.scores[i]))
        return saliency.tokens[first], [first]
    scores = saliency.word_scores
    word = saliency.words[max(saliency.word_order, key=lambda i: abs(scores[i]))]
    return word.text, list(word.tokens)


def confidence(saliency: Saliency) -> float:
    """The probability of the prediction; NaN for values, which have none."""
    return float("nan") if saliency.confidence is None else round(saliency.confidence, 4)


def _objects(values: Sequence[Any]) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


READERS: dict[str, Callable[[Saliency], Any]] = {
    "text": lambda saliency: " | ".join(saliency.row.parts),
    "prediction": lambda saliency: saliency.prediction,
    "confidence": confidence,
    "top": lambda saliency: strongest_word(saliency)[0],
}
