"""What a function returns for some texts, as rows of numbers: an array, or labels with their scores."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.support.errors import InputError
from nbsal.support.validation import plural

LABEL, SCORE = "label", "score"  # the keys of what transformers pipelines return


def read_answer(answer: Any, count: int, labels: list[str] | None) -> NDArray[np.float64]:
    """One row of numbers for each of `count` texts, of labelled scores in the order of the labels."""
    rows = labelled_rows(answer)
    if rows is not None and labels is not None:
        answer = [[_score(row, label, labels) for label in labels] for row in rows]
    try:
        values = np.asarray(answer.tolist() if hasattr(answer, "tolist") else answer, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    values = values[:, None] if values.ndim == 1 else values
    valid = values.ndim == 2 and len(values) == count and values.shape[1] and np.isfinite(values).all()
    if not valid or (values.shape[1] > 1 and (values.min() < 0 or values.max() > 1 + 1e-6)):
        message = (
            "model is a function that must take a list of texts and return, for each, a row of probabilities or a list "
            f'of {{"{LABEL}": ..., "{SCORE}": ...}}; for {plural(count, "text")} it returned {answer!r:.80}.'
        )
        raise InputError(message, argument="model", value=answer)
    return values


def labelled_rows(answer: Any) -> list[dict[str, Any]] | None:
    """The scores of each text by label, of dicts as transformers pipelines return them, or by label; None of others."""
    if not isinstance(answer, list | tuple) or not answer:
        return None
    rows = []
    for entry in answer:
        entries = entry if isinstance(entry, list | tuple) else [entry]
        if entries and all(isinstance(each, Mapping) and {LABEL, SCORE} <= set(each) for each in entries):
            rows.append({str(each[LABEL]): each[SCORE] for each in entries})
        elif isinstance(entry, Mapping):
            rows.append({str(label): score for label, score in entry.items()})
        else:
            return None
    return rows


def labels_of(answer: Any, labels: Sequence[str] | Mapping[int, str] | None) -> list[str] | None:
    """The labels that a function returns, in the order of `labels` if these were passed; None if it returns none."""
    rows = labelled_rows(answer)
    if rows is None:
        return None
    named = list(dict.fromkeys(label for row in rows for label in row))
    if labels is None and len(named) < 2:
        message = (
            f"The function returns a score for {named} alone. Let it return the scores of all labels (top_k=None in a "
            "pipeline), or pass labels=[...]."
        )
        raise InputError(message, argument="labels", value=None)
    if labels is None:
        return named
    return [labels[i] for i in sorted(labels)] if isinstance(labels, Mapping) else list(map(str, labels))


def _score(row: Mapping[str, Any], label: str, labels: Sequence[str]) -> Any:
    """The score of a label; of two labels, one tells the other."""
    other = next(iter(row.items()), None) if len(row) == 1 and len(labels) == 2 else None
    if label in row:
        return row[label]
    if other is not None and other[0] in labels:
        return 1 - other[1]
    message = (
        f"labels={list(labels)!r:.60}, but the function returns {list(row)!r:.60} without {label!r}. Name its own "
        "labels, and let it return the scores of all of them (top_k=None in a pipeline)."
    )
    raise InputError(message, argument="labels", value=label)
