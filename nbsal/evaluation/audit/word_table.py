"""The table of an audit's words: what hiding each does, and which kind of effect is beyond chance."""

from collections.abc import Collection
from typing import Any

import numpy as np

from nbsal.evaluation.audit.slices import false_p
from nbsal.evaluation.permutation import CHANCE, gain_p, holm, margin_p
from nbsal.support.intervals import mean_interval
from nbsal.support.lazy import pandas

BOTH = ("pull", "low", "high", "flips", "corrects", "breaks", "excess")  # columns that another model has too
COLUMNS = ["word", "speaks_for", "texts", "named", "score", *BOTH, "flips_random", "p", "p_flips"]
BOTH_WAYS = 1 / 3  # share of the decisions that change, from which those that change the other way count
TESTS = 2  # of each word
KINDS = {  # of words, each with its sign
    "misleads": "\N{BLACK DIAMOND} misleads the model beyond chance",
    "inverts": "\N{BLACK DIAMOND} inverts decisions beyond chance",
    "pulls": "\N{BLACK DIAMOND} pulls the model beyond chance",
    "turns": "\N{WHITE DIAMOND} turns decisions for and against",
    "": "",
}


def words(audit: Any) -> "pandas.DataFrame":
    """See `Audit.words`."""
    rows = [_row(audit, effect) for effect in audit.effects]
    frame = pandas.DataFrame(rows, columns=None if rows else COLUMNS)
    adjusted = holm([row[name] for name in ("p", "p_flips") for row in rows], TESTS * audit.considered)
    frame["p_holm"], frame["p_flips_holm"] = adjusted[: len(rows)], adjusted[len(rows) :]
    effects = zip(audit.effects, frame.p_holm, strict=True)
    explained = {text for effect, p in effects if p <= CHANCE for text in effect.texts}
    records = zip(audit.effects, frame.to_dict("records"), strict=True)
    frame["kind"] = [_kind(audit, effect, row, explained) for effect, row in records]
    if audit.other is not None:
        others = pandas.DataFrame([_row(audit.other, effect) for effect in audit.other.effects])
        for name in BOTH:
            if name in others:
                frame[f"{name}_other"] = others[name]
    order = sorted(range(len(rows)), key=lambda place: _order(frame.iloc[place]))
    return frame.iloc[order].reset_index(drop=True)


def speaks_for(row: Any) -> str:
    """The class that a word speaks for, as tables show it; "" if its pull may be 0."""
    if row["kind"] == "inverts":
        return "either class"
    return "" if row["low"] <= 0 else str(row["speaks_for"])


def adjusted_p(row: Any) -> float:
    """The adjusted p-value of what the kind of a word says."""
    return float(row["p_flips_holm" if row["kind"] == "turns" else "p_holm"])


def _row(audit: Any, effect: Any) -> dict[str, Any]:
    pulls, predictions = np.array(effect.pulls), np.array(audit.predictions)
    low, high = mean_interval(pulls)
    having, without = np.array(effect.texts, dtype=int), np.array(effect.without, dtype=int)
    before = predictions[having]
    decided = before == effect.speaks_for
    scores = np.array(effect.scores)[decided]
    flips, random = without != before, np.array(effect.random, dtype=int) != before
    row = {
        "word": effect.word,
        "speaks_for": audit.classes[effect.speaks_for],
        "texts": len(having),
        "named": effect.named,
        "score": float(scores.mean()) if len(scores) else float("nan"),
        "pull": float(pulls.mean()) if len(pulls) else float("nan"),
        "low": float(low),
        "high": float(high),
        "flips": int(flips.sum()),
        "flips_random": int(random.sum()),
    }
    p_flips = gain_p(int((flips & ~random).sum()), int((random & ~flips).sum()))
    if audit.labels is None:
        return row | {"p": float(margin_p(pulls[None])[0]) if len(pulls) else 1.0, "p_flips": p_flips}
    labels = np.array(audit.labels)
    corrects, breaks = _turned(audit, effect)
    inside = np.zeros(len(predictions), dtype=bool)
    inside[having] = True
    others = labels != effect.speaks_for
    # Hiding any word of a model that prefers a class may correct more than it breaks. So the word must also come with
    # its class too often, or turn more decisions than other words do.
    excess_p = false_p(inside & others, others, predictions == effect.speaks_for)
    return row | {
        "corrects": corrects,
        "breaks": breaks,
        "excess": float(decided.mean() - (labels[having] == effect.speaks_for).mean()) if len(having) else 0.0,
        "p": max(gain_p(corrects, breaks), min(excess_p, p_flips)),
        "p_flips": p_flips,
    }


def _kind(audit: Any, effect: Any, row: Any, explained: Collection[int]) -> str:
    """Which of `KINDS` a word is: its net effect, or else how many decisions it turns, is beyond chance.

    `explained` are the texts with a word whose net effect is: there, good evidence turns decisions for and against too.
    """
    before, without = np.array(audit.predictions)[list(effect.texts)], np.array(effect.without, dtype=int)
    toward = before[before != without] == effect.speaks_for
    by_class = _both_ways(int(toward.sum()), int((~toward).sum()))
    turns = row["p_flips_holm"] <= CHANCE
    if audit.labels is None:
        pulls = row["p_holm"] <= CHANCE and row["pull"] > 0
        return "pulls" if pulls else "turns" if turns and by_class else ""
    if row["p_holm"] <= CHANCE:
        return "inverts" if by_class else "misleads"
    return "turns" if turns and _both_ways(*_turned(audit, effect, explained)) else ""


def _turned(audit: Any, effect: Any, leave_out: Collection[int] = ()) -> tuple[int, int]:
    """How many decisions hiding a word corrects and breaks, leaving out some texts."""
    pairs = zip(effect.texts, effect.without, strict=True)
    triples = [(audit.labels[text], audit.predictions[text], after) for text, after in pairs if text not in leave_out]
    corrects = sum(before != gold == after for gold, before, after in triples)
    return corrects, sum(before == gold != after for gold, before, after in triples)


def _both_ways(first: int, second: int) -> bool:
    """Whether decisions change both ways, neither of them rarely."""
    return min(first, second) >= BOTH_WAYS * (first + second) > 0


def _order(row: Any) -> tuple[float, ...]:
    """Beyond chance first, those that turn decisions for and against last; then by what hiding the word does."""
    judged = "corrects" in row
    tier = 2 * (not row.kind) + (judged and row.kind == "turns")
    size = row.corrects - row.breaks if judged and row.kind != "turns" else row.flips
    return tier, -size, row.p_holm, -abs(row.pull)
