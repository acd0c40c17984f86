"""Texts longer than the model reads, split into overlapping windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.errors import InputError
from nbsal.support.validation import Text

OVERLAP = 0.5  # share of a window that the next one covers again
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Windows:
    """A whole text as one row, and for each window the positions of its tokens in that row."""

    row: Row
    places: list[list[int]]
    pad_id: int

    @property
    def encoded(self) -> Encoded:
        """The windows as texts of their own."""
        return Encoded([self.row.pick(places) for places in self.places], self.pad_id)

    def mean(self, values: Sequence[Floats]) -> Floats:
        """One value a token from the values of each window; a token in several windows gets the mean."""
        sums, counts = np.zeros(len(self.row), values[0].dtype), np.zeros(len(self.row))
        for places, part in zip(self.places, values, strict=True):
            sums[places] += part
            counts[places] += 1
        mean: Floats = (sums / counts).astype(values[0].dtype)
        return mean


def split_text(subject: Subject, text: Text) -> Windows:
    """Overlapping windows over a text that is longer than the model reads."""
    if subject.task != "sequence" or not isinstance(text, str):
        message = (
            'long="window" works for single texts and models that classify sequences; this text is too long. '
            'Use long="truncate" or shorten it.'
        )
        raise InputError(message, argument="long", value="window")
    row, before, after = subject.text_encoder.encode_whole(text)
    width = subject.max_length - before - after
    step = max(1, int(width * (1 - OVERLAP)))
    content = range(before, len(row) - after)
    starts = range(0, max(1, len(content) - width + step), step)
    first, last = [*range(before)], [*range(len(row) - after, len(row))]
    places = [[*first, *content[start : start + width], *last] for start in starts]
    return Windows(row, places, subject.text_encoder.pad_id)


def mean_prediction(probabilities: Sequence[Floats], outputs: Sequence[Floats]) -> int:
    """The label with the highest mean probability over the windows; of a regression, with the largest mean output."""
    means = np.mean(probabilities, axis=0) if probabilities[0].size else np.abs(np.mean(outputs, axis=0))
    return int(means.argmax())
