"""Explanations of texts that are longer than the model reads, joined from those of overlapping windows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nbsal.explain.saliency import Saliency
from nbsal.model.subject import Subject
from nbsal.model.targets import describe_values, is_regression
from nbsal.model.text import long_texts
from nbsal.model.text.long_texts import Windows
from nbsal.passes.plan import TraceJob
from nbsal.passes.run import run
from nbsal.passes.trace import Trace, to_numpy
from nbsal.support.progress import Meter

# Entries of a provenance that say nothing about the mean over windows.
OF_ONE_WINDOW = ("gap", "change", "points", "positions", "absorbed")


def target_jobs(subject: Subject, windows: Windows) -> list[TraceJob]:
    rows = windows.encoded
    return [
        TraceJob(subject, rows[number : number + 1], [number], [None], ("prediction",)) for number in range(len(rows))
    ]


def default_target(subject: Subject, windows: Windows, meter: Meter) -> int:
    """The label with the highest mean probability over the windows."""
    records: list[Trace] = []
    run(target_jobs(subject, windows), lambda job, name, record: records.append(record), meter)
    probabilities = [to_numpy(record.decisions[0].probabilities) for record in records]
    return long_texts.mean_prediction(probabilities, [to_numpy(record.logits[0]) for record in records])


def join_windows(windows: Windows, parts: Sequence[Saliency], subject: Subject) -> Saliency:
    """One explanation of the whole text; a token in several windows gets its mean score."""
    provenance: dict[str, Any] = {
        name: value for name, value in parts[0].provenance.items() if name not in OF_ONE_WINDOW
    }
    probabilities = np.mean([part.probabilities for part in parts], axis=0)
    if is_regression(subject):
        provenance["values"] = np.mean([part.provenance["values"] for part in parts], axis=0).tolist()
        prediction = describe_values(subject.labels, provenance["values"])
    else:
        prediction = subject.labels[int(probabilities.argmax())]
    return replace(
        parts[0],
        row=windows.row,
        prediction=prediction,
        probabilities=probabilities,
        provenance=provenance | {"windows": len(parts)},
        scores=windows.mean([part.scores for part in parts]),
        tie_breaker=windows.mean([part.tie_breaker for part in parts]),
    )
