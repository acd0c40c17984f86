"""The tables, sentences and plot of an audit."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from nbsal.evaluation.audit.word_table import TESTS
from nbsal.methods.facts import label_of
from nbsal.render import html
from nbsal.render.looks import HUES
from nbsal.render.names import quoted_word, word_name
from nbsal.support.lazy import Figure, pandas, pyplot
from nbsal.support.validation import plural

SHOWN = 12  # words of a plot
NAMED = 3  # pairs of label and prediction that a sentence names


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
    """What hiding the word with the largest effect does, if any effect is beyond chance."""
    frame, count = audit.words, len(audit.texts)
    if not len(frame):
        return f"No word is named in enough of the {plural(count, 'text')} to be tried."
    wrong = len(audit.wrong)
    if audit.labels is not None and not wrong:
        return f"No mistake in {plural(count, 'text')}."
    top = frame.iloc[0]
    name, judged = quoted_word(top.word), audit.labels is not None
    if not top.kind or (judged and top.kind == "turns"):
        return _without_finding(audit, top)
    if not judged:
        return f"Hiding {_turned(top, 'changes')}."
    corrects, breaks = f"corrects {top.corrects} of {plural(wrong, 'mistake')}", f"breaks {top.breaks}"
    ends = f"{corrects} and {breaks} of {plural(count - wrong, 'right decision')}"
    return f"{name} inverts decisions: hiding it {ends}." if top.kind == "inverts" else f"Hiding {name} {ends}."


def _without_finding(audit: Any, top: Any) -> str:
    """That no word has a net effect beyond chance, but a slice, or else how many decisions a word turns."""
    verb = "pulls" if audit.labels is None else "misleads"
    words = f"None of {plural(len(audit.words), 'word')} {verb} the model beyond chance"
    for part in audit.beyond_chance[1].head(1).itertuples():
        return f"{words}, but “{html.label(f'{part.slice}: {part.value}')}” differs from all other texts."
    return f"{words}, but hiding {_turned(top, 'turns')}." if top.kind else f"{words}."


def _turned(row: Any, verb: str) -> str:
    """How many decisions hiding a word changes."""
    decisions = f"{row.flips} of {plural(int(row.texts), 'decision')} about texts with it"
    return f"{quoted_word(row.word)} {verb} {decisions}{', for and against' * (row.kind == 'turns')}"


def mistake_sentence(audit: Any) -> str:
    """Which labels are mistaken for which, and how many of these mistakes hiding one word, or a few, corrects."""
    if not audit.corrections:
        return ""
    pairs = Counter((audit.labels[each.text], audit.predictions[each.text]) for each in audit.corrections)
    ways = [f"{count} {audit.classes[a]} → {audit.classes[b]}" for (a, b), count in pairs.most_common(NAMED)]
    if rest := len(audit.corrections) - sum(count for _, count in pairs.most_common(NAMED)):
        ways.append(f"{rest} others")
    one, few = (sum(0 < len(each.words) <= most for each in audit.corrections) for most in (1, sys.maxsize))
    more = f", hiding a few corrects {few}" if few > one else ""
    return f"{plural(len(audit.corrections), 'mistake')} ({', '.join(ways)}): hiding one word corrects {one}{more}."


def adjustment(audit: Any) -> str:
    """For what p-values are adjusted."""
    return f"p-values are adjusted for {TESTS} tests of {plural(audit.considered, 'word')}, and for the slices (Holm)"


def notes(audit: Any) -> list[str]:
    """How an audit was computed."""
    facts, count = audit.provenance, len(audit.texts)
    tried = f"{plural(len(audit.effects), 'word')} tried, each in every text that has it"
    model = PurePath(facts["model"])
    name = model.name if model.is_absolute() else facts["model"]  # a folder has a long path
    lines = [
        f"{name} · {label_of(facts['method'], facts)} · {plural(count, 'text')}",
        f"{tried}, beside a random other word: {facts['passes']:,} masked forward passes",
        adjustment(audit),
    ]
    if facts["dropped"]:
        lines.append(f"▲ {plural(facts['dropped'], 'text')} longer than the model reads: the ends were not read")
    if audit.labels is None:
        lines.append("without labels: mistakes and slices are not known")
    elif len(set(audit.labels)) == 1:
        only = audit.classes[audit.labels[0]]
        lines.append(f"▲ every text is labelled {only}: mistakes about other texts cannot be seen")
    return lines


def plot(audit: Any) -> "Figure":
    """The words that correct or break most decisions, as bars."""
    frame = audit.words
    columns = ["flips"] if audit.labels is None else ["corrects", "breaks"]
    shown = frame.loc[frame[columns].sum(axis=1).sort_values(ascending=False, kind="stable").index[:SHOWN]][::-1]
    figure, ax = pyplot.subplots(figsize=(6.4, 0.32 * len(shown) + 1.2), layout="constrained")
    for number, (name, sign) in enumerate(zip(columns, (1, -1), strict=False)):
        ax.barh(range(len(shown)), sign * shown[name], color=HUES[number], label=name)
    ax.set_yticks(range(len(shown)), [html.visible(word_name(word)) for word in shown.word], parse_math=False)
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    ax.set_xlabel("decisions that hiding the word turns right or wrong" if len(columns) > 1 else "decisions changed")
    ax.set_title(html.visible(audit.sentence), fontsize=10, loc="left", parse_math=False)
    ax.legend(frameon=False)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return figure
