"""Windows: a text longer than the model reads, explained piece by piece and joined again."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nbsal import reading
from nbsal.errors import InputError
from nbsal.saliency import Floats, Saliency
from nbsal.subject import Subject


def decide(parts: Sequence[Saliency], subject: Subject) -> int:
    """The label that the windows find likeliest on average."""
    if subject.task != "sequence":
        raise InputError(f'long="window" without a target joins decisions about a text, not about a {subject.task}.')
    if not parts[0].probabilities.size:  # a one-logit head decides nothing
        return 0
    return int(np.mean([part.probabilities for part in parts], axis=0).argmax())


def join(parts: Sequence[Saliency], subject: Subject) -> Saliency:
    """One explanation of the whole text; a token read in two windows carries their mean score."""
    row = reading.whole(subject, parts[0].text)
    added = subject.tokenizer.num_special_tokens_to_add()
    before = next(i for i, special in enumerate(row.special) if not special)
    sums, counts = np.zeros((2, len(row)), parts[0].scores.dtype), np.zeros(len(row))
    for number, part in enumerate(parts):
        inside = len(part.tokens) - added
        start = before + number * reading.step(subject)
        # Special tokens before and after the window stand for those of the whole text.
        places = [*range(before), *range(start, start + inside), *range(len(row) - added + before, len(row))]
        sums[:, places] += np.stack([part.scores, part.signed])
        counts[places] += 1
    scores, signed = sums / counts
    probabilities = np.mean([part.probabilities for part in parts], axis=0)
    return replace(
        parts[0],
        row=row,
        prediction=_label(probabilities, parts, subject),
        probabilities=probabilities,
        provenance=parts[0].provenance | {"windows": len(parts)},
        scores=scores,
        signed=signed,
    )


def _label(probabilities: Floats, parts: Sequence[Saliency], subject: Subject) -> str:
    return subject.labels[int(probabilities.argmax())] if probabilities.size else parts[0].prediction
