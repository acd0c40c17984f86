"""The tables, sentences and plot of an audit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbsal.evaluation.audit.slices import false_p
from nbsal.evaluation.permutation import gain_p, holm, margin_p
from nbsal.render import html
from nbsal.render.looks import HUES
from nbsal.support.intervals import mean_interval
from nbsal.support.lazy import Figure, pandas, pyplot
from nbsal.support.validation import plural

SHOWN = 12  # words of a plot
BOTH = ("pull", "low", "high", "flips", "corrects", "breaks", "excess")  # columns that another model has too


def words(audit: Any) -> "pandas.DataFrame":
    """See `Audit.words`."""
    rows = [_word(audit, effect) for effect in audit.effects]
    frame = pandas.DataFrame(rows, columns=None if rows else ["word", "speaks_for", "texts", "named", *BOTH, "p"])
    frame["p_holm"] = holm(frame.p) if rows else []
    if audit.other is not None:
        others = pandas.DataFrame([_word(audit.other, effect) for effect in audit.other.effects])
        for name in BOTH:
            if name in others:
                frame[f"{name}_other"] = others[name]
    if "corrects" not in frame or not rows:
        return frame.sort_values("pull", ascending=False, kind="stable").reset_index(drop=True)
    gain = frame.corrects - frame.breaks
    order = frame.assign(gain=gain, size=-frame.pull.abs()).sort_values(
        ["gain", "p_holm", "size"], ascending=[False, True, True], kind="stable"
    )
    return frame.loc[order.index].reset_index(drop=True)


def _word(audit: Any, effect: Any) -> dict[str, Any]:
    pulls, own = np.array(effect.pulls), np.array(audit.predictions)
    low, high = mean_interval(pulls)
    having, without = np.array(effect.texts, dtype=int), np.array(effect.without, dtype=int)
    decided = own[having] == effect.speaks_for
    scores = np.array(effect.scores)[decided]
    row = {
        "word": effect.word,
        "speaks_for": audit.classes[effect.speaks_for],
        "texts": len(having),
        "named": effect.named,
        "score": float(scores.mean()) if len(scores) else float("nan"),
        "pull": float(pulls.mean()) if len(pulls) else float("nan"),
        "low": float(low),
        "high": float(high),
        "flips": int((without != own[having]).sum()),
    }
    p = float(margin_p(pulls[None])[0]) if len(pulls) else 1.0
    if audit.labels is None:
        return row | {"p": p}
    labels = np.array(audit.labels)
    right, was_right = without == labels[having], own[having] == labels[having]
    inside = np.zeros(len(own), dtype=bool)
    inside[having] = True
    corrects, breaks = int((right & ~was_right).sum()), int((~right & was_right).sum())
    others = labels != effect.speaks_for
    # Where some labels are wrong, good evidence pulls too, and stands in texts of other labels that get its class. So
    # hiding the word must also do more good than harm.
    excess_p = false_p(inside & others, others, own == effect.speaks_for)
    return row | {
        "corrects": corrects,
        "breaks": breaks,
        "excess": float(decided.mean() - (labels[having] == effect.speaks_for).mean()) if len(having) else 0.0,
        "p": max(p, excess_p, gain_p(corrects, breaks)),
    }


def mistakes(audit: Any) -> "pandas.DataFrame":
    """See `Audit.mistakes`."""
    rows = [
        (
            each.text,
            audit.texts[each.text],
            audit.classes[audit.labels[each.text]],
            audit.classes[audit.predictions[each.text]],
            audit.confidences[each.text],
            list(each.words),
            bool(each.words),
            each.exact,
        )
        for each in audit.corrections
    ]
    columns = ["number", "text", "label", "prediction", "confidence", "words", "corrected", "exact"]
    return pandas.DataFrame(rows, columns=columns)


def without(audit: Any, effects: Sequence[Any]) -> "pandas.DataFrame":
    """The texts with any of some words: the decisions with and without each, mistakes first."""
    rows = []
    for effect in effects:
        for text, decided, pull in zip(effect.texts, effect.without, effect.pulls, strict=True):
            label = None if audit.labels is None else audit.classes[audit.labels[text]]
            before = audit.classes[audit.predictions[text]]
            after = audit.classes[decided]
            rows.append((text, audit.texts[text], label, before, effect.word, after, pull))
    frame = pandas.DataFrame(rows, columns=["number", "text", "label", "prediction", "word", "without", "pull"])
    wrong = (frame.label != frame.prediction) if audit.labels is not None else frame.prediction != frame.without
    return frame.loc[wrong.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


def sentence(audit: Any) -> str:
    """What hiding the word that corrects most mistakes does, or the word that changes most decisions."""
    frame, count = audit.words, len(audit.texts)
    if not len(frame):
        return f"Scores name no word in enough of the {plural(count, 'text')} to be tried."
    if audit.labels is None:
        top = frame.loc[frame.flips.idxmax()]
        of = f"{top.flips} of {plural(int(top.texts), 'decision')}"
        return f"Hiding “{html.label(top.word)}” changes {of} about texts with it."
    wrong = len(audit.wrong)
    right = count - wrong
    if not wrong:
        return f"No mistake in {plural(count, 'text')}."
    top = frame.iloc[0]
    if not top.corrects:
        return f"No word that was tried corrects any of {plural(wrong, 'mistake')}."
    breaks = f"breaks {top.breaks} of {plural(right, 'right decision')}"
    return f"Hiding “{html.label(top.word)}” corrects {top.corrects} of {plural(wrong, 'mistake')} and {breaks}."


def notes(audit: Any) -> list[str]:
    """How an audit was computed."""
    facts, count = audit.provenance, len(audit.texts)
    words = len({effect.word for effect in audit.effects})
    lines = [
        f"{facts['model']} · {facts['method']} · {plural(count, 'text')}",
        f"{plural(words, 'word')} tried, each in every text that has it: {facts['passes']:,} masked forward passes",
        f"p-values are adjusted for {_tests(audit, words)} and for the slices apart (Holm)",
    ]
    if facts["dropped"]:
        lines.append(f"▲ {plural(facts['dropped'], 'text')} longer than the model reads: the ends were not read")
    if audit.labels is None:
        lines.append("without labels: mistakes and slices are not known")
    elif len(set(audit.labels)) == 1:
        only = audit.classes[audit.labels[0]]
        lines.append(f"▲ every text is labelled {only}: mistakes about other texts cannot be seen")
    return lines


def _tests(audit: Any, words: int) -> str:
    """How many words were tested: one that speaks for several classes counts for each."""
    count = len(audit.effects)
    return plural(words, "word") if count == words else f"{plural(words, 'word')} and classes ({count} tests)"


def plot(audit: Any) -> "Figure":
    """The words that correct or break most decisions, as bars."""
    frame = audit.words
    columns = ["flips"] if audit.labels is None else ["corrects", "breaks"]
    shown = frame.loc[frame[columns].sum(axis=1).sort_values(ascending=False, kind="stable").index[:SHOWN]][::-1]
    figure, ax = pyplot.subplots(figsize=(6.4, 0.32 * len(shown) + 1.2), layout="constrained")
    for number, (name, sign) in enumerate(zip(columns, (1, -1), strict=False)):
        ax.barh(range(len(shown)), sign * shown[name], color=HUES[number], label=name)
    ax.set_yticks(range(len(shown)), [html.visible(word) for word in shown.word], parse_math=False)
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    ax.set_xlabel("decisions that hiding the word turns right or wrong" if len(columns) > 1 else "decisions changed")
    ax.set_title(html.visible(audit.sentence), fontsize=10, loc="left", parse_math=False)
    ax.legend(frameon=False)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return figure
