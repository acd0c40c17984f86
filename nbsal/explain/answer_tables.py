"""An answer as data frames: its tokens, scores of parts of the reply by sources, and the best sources of each part."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbsal.explain.prompt.reading import TEMPLATE
from nbsal.explain.scoring.hops import ALL, SUMMED_HOPS, Count, follow_answer, scaled
from nbsal.explain.scoring.score_matrix import ScoreMatrix
from nbsal.support.lazy import pandas
from nbsal.support.validation import positive_number

EARLIER = "reply so far"


def tokens(answer: Any) -> "pandas.DataFrame":
    """See `Answer.tokens`."""
    statistics, (starts, ends) = answer.statistics, zip(*answer.reading.reply_spans, strict=True)
    return pandas.DataFrame(
        {
            "token": answer.reading.reply_tokens,
            "start": starts,
            "end": ends,
            "special": answer.reading.reply_special,
            "logprob": statistics.logprob,
            "probability": np.exp(statistics.logprob),
            "rank": statistics.rank,
            "entropy": statistics.entropy,
            "rivals": [list(rivals) for rivals in statistics.rivals],
            "drawn": statistics.drawn if statistics.drawn is not None else [None] * len(answer.ids),
        }
    )


def matrix(answer: Any, rows: str, columns: Any, earlier: bool, hops: Count | None) -> "pandas.DataFrame":
    """See `Answer.matrix`."""
    parts, units, start = answer.reading.reply_units(rows), answer.reading.units(columns), answer.reading.start
    summed = _part_scores(answer, [part.tokens for part in parts], hops)
    names = [unit.text if columns not in ("document", "message") else unit.name for unit in units]
    covered = {token for unit in units for token in unit.tokens}
    summands = [unit.tokens for unit in units] + [tuple(token for token in range(start) if token not in covered)]
    names.append(TEMPLATE)
    if earlier:
        summands.append(tuple(range(start, summed.shape[1])))
        names.append(EARLIER)
    frame = pandas.DataFrame(summed.sums(summands), index=[part.text for part in parts], columns=names)
    frame.attrs["sum"] = "exact" if answer.linear else "sum of rows, not one target"
    return frame


def sources(answer: Any, k: int, rows: str, hops: Count | None) -> "pandas.DataFrame":
    """See `Answer.sources`."""
    k = positive_number(k, "k")
    parts = answer.reading.reply_units(rows)
    summed = _part_scores(answer, [part.tokens for part in parts], hops).sums([unit.tokens for unit in answer.units])
    entries = []
    for part, scores in zip(parts, summed, strict=True):
        total = float(scores[scores > 0].sum())
        for i in np.argsort(-scores, kind="stable")[:k]:
            share = max(0.0, float(scores[i]) / total) if total else 0.0
            unit, drop = answer.units[i], _drop(answer, int(i), part.tokens)
            entries.append((part.text, unit.name, unit.text, share, float(scores[i]), drop))
    return pandas.DataFrame(entries, columns=[rows, "unit", "text", "share", "score", "drop"])


def _part_scores(answer: Any, parts: Sequence[Sequence[int]], hops: Count | None) -> ScoreMatrix:
    """The scores of some parts of the reply, [part, token of prompt and reply]."""
    hops = answer.hops_of(hops)
    # What needs another run at each hop is not followed again, since the answer may have no model.
    again = hops == answer.hops and hops != ALL and "span" in answer.provenance
    rows = answer.followed_matrix if again else answer.score_matrix
    summed: ScoreMatrix = rows.parts(parts)
    if hops == 0:
        return summed
    if not again:
        return ScoreMatrix(follow_answer(answer, summed.array, hops).scores)
    return summed if answer.provenance["span"] == SUMMED_HOPS else ScoreMatrix(scaled(summed.array))


def _drop(answer: Any, unit: int, part: Sequence[int]) -> float | None:
    """The drop without a unit, if the model was run without it before."""
    drops = None if answer.running is None else answer.running.experiment.cached_drop(unit)
    return None if drops is None else float(drops[list(part)].sum())
