"""Windows: a text longer than the model reads, explained piece by piece and joined again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nbsal import reading
from nbsal.encoding import Encoded, Row, Text
from nbsal.errors import InputError
from nbsal.saliency import Floats, Saliency
from nbsal.subject import Subject

OVERLAP = 0.5  # share of a window that its neighbour reads again


@dataclass(frozen=True)
class Windows:
    """A whole text, and the places of its tokens that each window holds."""

    row: Row
    places: list[list[int]]
    pad_id: int

    @property
    def encoded(self) -> Encoded:
        """The windows as texts of their own."""
        return Encoded([self.row.pick(places) for places in self.places], self.pad_id)


def over(subject: Subject, text: Text) -> Windows:
    """The overlapping windows of a text that is longer than the model reads."""
    row, before, after = reading.whole(subject, text)
    if subject.task != "sequence" or not isinstance(text, str):
        raise InputError(
            'long="window" explains decisions about single texts; this text is too long, and can only be cut '
            '(long="truncate").'
        )
    width = subject.longest - before - after
    step = max(1, int(width * (1 - OVERLAP)))
    content = range(before, len(row) - after)
    starts = range(0, max(1, len(content) - width + step), step)
    edges = [*range(before)], [*range(len(row) - after, len(row))]
    places = [[*edges[0], *content[start : start + width], *edges[1]] for start in starts]
    return Windows(row, places, reading.pad_id(subject))


def decide(probabilities: Sequence[Floats]) -> int:
    """The label that the windows find likeliest on average; a one-logit head has but one."""
    return int(np.mean(probabilities, axis=0).argmax()) if probabilities[0].size else 0


def join(windows: Windows, parts: Sequence[Saliency], subject: Subject) -> Saliency:
    """One explanation of the whole text; a token read in several windows carries their mean score."""
    size = len(windows.row)
    sums, counts = np.zeros((2, size), parts[0].scores.dtype), np.zeros(size)
    for places, part in zip(windows.places, parts, strict=True):
        sums[:, places] += np.stack([part.scores, part.signed])
        counts[places] += 1
    scores, signed = (sums / counts).astype(parts[0].scores.dtype)
    probabilities = np.mean([part.probabilities for part in parts], axis=0)
    if probabilities.size:
        prediction = subject.labels[int(probabilities.argmax())]
    else:
        prediction = f"{np.mean([float(part.prediction) for part in parts]):.4g}"
    # A mean over windows completes to nothing: what one window's scores sum to is not said of it.
    shared = {name: value for name, value in parts[0].provenance.items() if name not in ("gap", "change")}
    return replace(
        parts[0],
        row=windows.row,
        prediction=prediction,
        probabilities=probabilities,
        provenance=shared | {"windows": len(parts)},
        scores=scores,
        signed=signed,
    )
