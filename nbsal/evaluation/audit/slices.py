"""Where a classifier errs: errors of parts of the texts beside those of all others."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from nbsal.evaluation.permutation import fisher_p, holm
from nbsal.support.intervals import wilson_interval
from nbsal.support.lazy import pandas

FEWEST = 10  # texts of a slice
QUARTERS = (0.25, 0.5, 0.75)
COLUMNS = ["slice", "value", "texts", "errors", "rate", "low", "high", "rest", "toward", "excess", "p", "p_holm"]


def table(audit: Any) -> "pandas.DataFrame":
    """See `Audit.slices`: `rate` is that of errors, `rest` that of all other texts.

    `toward` is the class that texts of other labels get more often in the slice than elsewhere, and `excess` how much
    more often than its labels the slice gets it. `p` is the smaller of two adjusted p-values (Bonferroni): that the
    slice has more errors, and that such texts get the class more often; of slices by label or prediction, the first.
    """
    if audit.labels is None:
        return pandas.DataFrame(columns=COLUMNS)
    labels, own = np.array(audit.labels), np.array(audit.predictions)
    wrong, rows = labels != own, []
    for kind, value, inside in _slices(audit):
        size, errors, all_errors = int(inside.sum()), int(wrong[inside].sum()), int(wrong.sum())
        if size < FEWEST or size == len(own):
            continue
        rate, rest = errors / size, float(wrong[~inside].mean())
        low, high = (float(end) for end in wilson_interval(rate, size))
        tests = [fisher_p(errors, size, all_errors, len(own))]
        toward, excess = "", float("nan")
        if kind not in ("label", "prediction"):
            chances = [_false_p(labels, own, inside, index) for index in range(len(audit.classes))]
            best = int(np.argmin(chances))
            toward = audit.classes[best]
            excess = float((own[inside] == best).mean() - (labels[inside] == best).mean())
            tests.append(len(chances) * chances[best])
        p = min(1.0, len(tests) * min(tests))
        rows.append([kind, value, size, errors, rate, low, high, rest, toward, excess, p])
    frame = pandas.DataFrame(rows, columns=COLUMNS[:-1])
    frame["p_holm"] = holm(frame.p) if rows else []
    return frame.sort_values(["p_holm", "p"], kind="stable").reset_index(drop=True)


def members(audit: Any, kind: str, value: str) -> list[int]:
    """The numbers of the texts in a slice."""
    return next(np.flatnonzero(inside).tolist() for *names, inside in _slices(audit) if names == [kind, value])


def without_complements(audit: Any) -> "pandas.DataFrame":
    """The slices; of two that are all texts together, the one with more errors than the other."""
    frame: pandas.DataFrame = audit.slices
    sizes = frame.groupby("slice").texts.agg(["size", "sum"])
    halved = {name for name, row in sizes.iterrows() if row["size"] == 2 and row["sum"] == len(audit.texts)}
    return frame[~frame.slice.isin(halved) | (frame.rate >= frame.rest)]


def _false_p(labels: Any, own: Any, inside: Any, index: int) -> float:
    """How likely a slice gets a class by chance so much more often than other texts, among those labelled otherwise."""
    others, decided = labels != index, own == index
    return false_p(others & inside, others, decided)


def false_p(inside: Any, others: Any, decided: Any) -> float:
    """Fisher's test of decisions for a class among texts of other labels, inside a part and in all."""
    hits, all_hits = int((inside & decided).sum()), int((others & decided).sum())
    return fisher_p(hits, int(inside.sum()), all_hits, int(others.sum()))


def _slices(audit: Any) -> Iterator[tuple[str, str, Any]]:
    """The kind and the value of each slice, and which texts are in it."""
    counts = np.array([_length(audit, text) for text in range(len(audit.texts))])
    ends = np.unique(np.quantile(counts, QUARTERS).astype(int))
    for low, high in zip([0, *(ends + 1)], [*ends, counts.max(initial=0)], strict=True):
        if low <= high:
            least = max(low, counts.min())
            yield "words", f"{least} to {high}" if least < high else str(high), (counts >= low) & (counts <= high)
    for kind, values in (("label", audit.labels), ("prediction", audit.predictions)):
        for index, name in enumerate(audit.classes):
            yield kind, name, np.array(values) == index
    firsts = np.array([_first_word(audit, text) for text in range(len(audit.texts))])
    for word in dict.fromkeys(firsts.tolist()):
        yield "first word", word, firsts == word
    for name, values in audit.groups.items():
        for value in dict.fromkeys(values):
            yield name, value, np.array(values) == value


def _length(audit: Any, text: int) -> int:
    """The number of words with letters or digits: quotation marks do not make a text longer."""
    words = (audit.word(text, place) for place in range(len(audit.spans[text])))
    return sum(any(map(str.isalnum, word)) for word in words)


def _first_word(audit: Any, text: int) -> str:
    spans = audit.spans[text]
    return audit.word(text, 0).casefold() if spans else ""
