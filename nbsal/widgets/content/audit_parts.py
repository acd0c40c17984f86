"""What the Audit view shows of an audit: its words and slices, and what is said of the texts that they name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nbsal.evaluation.audit import slices, tables
from nbsal.evaluation.audit.result import Audit, Effect
from nbsal.evaluation.audit.word_table import KINDS, adjusted_p, speaks_for
from nbsal.explain.saliency import Saliency
from nbsal.model.text.tokens import Row
from nbsal.render.headline import Phrase, in_row, percent, phrases, plain
from nbsal.render.names import quoted_word, word_name
from nbsal.render.scores import p_text
from nbsal.support.lazy import pandas
from nbsal.support.validation import plural
from nbsal.widgets.content.text_table import Listing, Remark, TablePage

JUDGED = (  # columns after the word, its class and its texts: title, kind, name in the table
    ("breaks", "number", "breaks"),
    ("", "left", "breaks"),
    ("", "right", "corrects"),
    ("corrects", "number", "corrects"),
    ("too often", "share", "excess"),
)
NEUTRAL = (("", "right", "flips"), ("changes", "number", "flips"), ("pull", "score", "pull"))
LISTED = 12  # words of a sentence
NONE = "\N{EN DASH}"
Wired = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Hidden:
    """Words that are hidden from every text that has any of them, from the audited model and from the other one."""

    words: tuple[str, ...]
    effects: tuple[Effect, ...]

    def order(self, audit: Audit) -> list[int]:
        """The texts: mistakes first, and of those what changes."""
        effect, wrong = self.effects[0], set(audit.wrong)
        after = dict(zip(effect.texts, effect.without, strict=True))
        return sorted(after, key=lambda text: (text not in wrong, after[text] == audit.predictions[text]))

    def changed(self, audit: Audit) -> dict[int, int]:
        """The decisions of the audited model that hiding the words changes, by text."""
        pairs = zip(self.effects[0].texts, self.effects[0].without, strict=True)
        return {text: after for text, after in pairs if after != audit.predictions[text]}

    def remark(self, audit: Audit, text: int) -> Remark | None:
        """The decision of each model without the words: "→ negative without it, corrected"."""
        if text not in self.effects[0].texts:
            return None
        it, parts = "it" if len(self.words) == 1 else "them", []
        for name, each, effect in zip("AB", models(audit), self.effects, strict=False):
            after = effect.without[effect.texts.index(text)]
            owner = "" if audit.other is None else f"{name}: "
            changes = after != each.predictions[text]
            parts.append(f"{owner}{f'→ {each.classes[after]} without' if changes else 'with or without'} {it}")
        kind = _outcome(audit, text, self.effects[0].without[self.effects[0].texts.index(text)])
        sign = {"corrected": "\N{CHECK MARK} corrected", "broken": "\N{BALLOT X} broken"}.get(kind)
        return kind, " · ".join([*parts, *([sign] if sign else [])])

    def sentence(self, audit: Audit) -> list[Phrase]:
        """What hiding the words does to the decisions of the audited model."""
        names = in_row([[("for", quoted_word(word))] for word in self.words])
        together = " together" if len(self.words) > 1 else ""
        changed = self.changed(audit)
        if audit.labels is None:
            of = f"{len(changed)} of {plural(len(self.effects[0].texts), 'decision')}"
            them = "it" if len(self.words) == 1 else "any of them"
            return phrases("Hiding ", names, f"{together} changes {of} about texts with {them}.")
        outcomes, wrong = [_outcome(audit, text, after) for text, after in changed.items()], len(audit.wrong)
        right = plural(len(audit.texts) - wrong, "right decision")
        ends = f"corrects {outcomes.count('corrected')} of {plural(wrong, 'mistake')}"
        return phrases("Hiding ", names, f"{together} {ends} and breaks {outcomes.count('broken')} of {right}.")


@dataclass(frozen=True, eq=False)
class ShownAudit:
    """An audit with the words that are picked, and the page of the table of texts.

    `hidden` has each word, or all of them together; with `everywhere`, they are hidden in every text.
    """

    audit: Audit | None  # None until the first words are hidden
    is_complete: bool
    picked: tuple[str, ...]
    hidden: Sequence[Hidden]
    everywhere: bool
    table: TablePage

    def caption(self) -> str:
        """The finding that matters most."""
        return self.table.caption() if self.audit is None else self.audit.sentence

    def to_frame(self) -> "pandas.DataFrame":
        """The words, the most harmful first."""
        return self.table.to_frame() if self.audit is None else self.audit.words


def hidden_word(audit: Audit, word: str) -> Hidden:
    """A word as the audit hid it."""
    place = next(place for place, effect in enumerate(audit.effects) if effect.word == word)
    return Hidden((word,), tuple(each.effects[place] for each in models(audit)))


def hide_together(audit: Audit, words: Sequence[str]) -> Hidden:
    return Hidden(tuple(words), tuple(each.hide(words) for each in models(audit)))


def models(audit: Audit) -> list[Audit]:
    """The audits of both models, or of the only one."""
    return [audit] if audit.other is None else [audit, audit.other]


def headline(audit: Audit) -> list[Phrase]:
    """The sentence of an audit, in which the word is marked, that of the other model, and that of the mistakes."""
    sentence: list[Phrase] = []
    for name, each in zip("AB", models(audit), strict=False):
        text = each.sentence if audit.other is None else f"{' ' * bool(sentence)}{name}: {each.sentence}"
        quoted = map(quoted_word, each.words.word)
        mark = next((word for word in quoted if word in text), "")
        before, _, after = text.partition(mark) if mark else (text, "", "")
        sentence += phrases(before, ("for", mark), after) if mark else phrases(text)
    mistakes = tables.mistake_sentence(audit)
    return phrases(sentence, f" {mistakes}" * bool(mistakes))


def first_picked(audit: Audit) -> list[str]:
    """The word that the sentence names, if it names one."""
    words = list(dict.fromkeys(audit.words.word))
    return [word for word in words if quoted_word(word) in audit.sentence][:1]


def listing_of(audit: Audit, hidden: Sequence[Hidden], part: str | None, everywhere: bool) -> Listing:
    """The texts of the picked words, or of a slice, or all; of mistakes, what is behind them."""
    if part is not None:
        row: Any = next(row for row in audit.slices.itertuples() if _slice_name(row) == part)
        numbers, wrong = slices.members(audit, row.slice, row.value), set(audit.wrong)
        numbers = sorted(numbers, key=lambda text: text not in wrong)
        heading = phrases(f"{plural(len(numbers), 'text')} of the slice {part}, mistakes first")
        return Listing(heading, numbers, lambda _: [], lambda text: behind_words(audit, text))
    if not hidden:
        return Listing([], None, lambda _: [], lambda text: behind_words(audit, text))
    numbers = list(dict.fromkeys(text for each in hidden for text in each.order(audit)))
    words = [word for each in hidden for word in each.words]
    names = phrases(*(part for word in words for part in (" or ", ("for", quoted_word(word)))))[1:]
    order = "mistakes first" if audit.labels else "changed first"
    heading = phrases(f"{plural(len(numbers), 'text')} with ", names, f", {order}")
    if everywhere:
        numbers = [text for text in numbers if text in hidden[0].changed(audit)]
        heading = phrases(f"{plural(len(numbers), 'decision')} changed without ", names)
    sentences = [phrases(" " * bool(i), each.sentence(audit)) for i, each in enumerate(hidden)]

    def remark(text: int) -> Remark | None:
        found = [(each, each.remark(audit, text)) for each in hidden]
        said = [(each, words) for each, words in found if words is not None]
        if len(hidden) == 1 or not said:
            return said[0][1] if said else None
        return "", "; ".join(f"{quoted_word(each.words[0])}: {words}" for each, (_, words) in said)

    return Listing(heading, numbers, lambda saliency: places_of(saliency, words), remark, phrases(*sentences))


def places_of(saliency: Saliency, words: Sequence[str]) -> list[int]:
    """The positions of the tokens of some words, in whatever case."""
    return [i for word in saliency.words if word.text.casefold() in words for i in word.tokens]


def saliencies_of(audit: Audit) -> list[Saliency]:
    """The texts of an audit without a model as explanations whose tokens are its words."""
    return [_saliency_of(audit, number) for number in range(len(audit.texts))]


def _saliency_of(audit: Audit, number: int) -> Saliency:
    parts = audit.parts(number)
    spans = audit.spans[number] or ((0, 0, len(parts[0])),)
    names = tuple(parts[part][start:end] for part, start, end in spans)
    offsets, segments = tuple((start, end) for _, start, end in spans), tuple(part for part, *_ in spans)
    scores = np.nan_to_num(np.array(audit.scores[number] or (0.0,), float))
    count = len(names)
    flags = (False,) * count, (0,) * count, (1,) * count
    row = Row(audit.texts[number], tuple(range(count)), names, offsets, segments, *flags)
    decided = audit.classes[audit.predictions[number]]
    provenance = {"parameters": {}} | dict(audit.provenance)
    probabilities = np.array([audit.confidences[number]])
    return Saliency(row, decided, decided, probabilities, str(provenance["method"]), provenance, scores, scores)


def words_trait(audit: Audit, is_complete: bool, picked: int) -> Wired:
    """The words as bars, with everything that was measured of them; so many are picked."""
    judged, ends = audit.labels is not None, ["", "_other"][: len(models(audit))]
    own = [str(each.provenance.get("model", "")) for each in models(audit)]
    names = ["corrects", "breaks"] if judged else ["flips"]
    counts = [int(audit.words[f"{name}{end}"].max()) for name in names for end in ends] if len(audit.words) else []
    most = max([1, *counts])
    records = audit.words.to_dict("records")
    changes = {row["word"]: bool(row["kind"]) or any(row[f"flips{end}"] for end in ends) for row in records}
    idle = [word_name(word) for word, does in changes.items() if not does]
    more = [f"{len(idle) - LISTED} more"] if len(idle) > LISTED else []
    in_list = plain(in_row([[("text", word)] for word in [*idle[:LISTED], *more]]))
    return {
        "heading": words_heading(audit) if is_complete else f"{plural(len(audit.words), 'word')} tried so far",
        "note": " · ".join([*([f"A: {own[0]}", f"B: {own[1]}"] if len(own) > 1 else []), *_signs(records)]),
        "tip": tables.adjustment(audit),
        "columns": ["Word", "speaks for", "texts", *(title for title, *_ in (JUDGED if judged else NEUTRAL))],
        "rows": [_word(row, ends, most, judged) for row in records if changes[row["word"]]],
        "rest": f"Hidden without any change: {in_list}." if idle else "",
        "hint": "Point at a word to see what was measured; press it to read its texts.",
        "hide": _hide_label(picked) if all(each.model is not None for each in models(audit)) or picked == 1 else "",
    }


def _hide_label(count: int) -> str:
    """What the press is called that hides the picked words everywhere."""
    return "" if not count else "Hide it in every text" if count == 1 else "Hide them in every text"


def slices_trait(audit: Audit) -> Wired:
    """The slices as bars from 0 to the largest rate."""
    if audit.labels is None or not len(audit.slices):
        return {}
    frame, beyond = slices.without_complements(audit), set(audit.beyond_chance[1].index)
    rows: list[Any] = list(frame.itertuples())
    most = max(0.01, float(frame[["high", "rest"]].max().max()))  # the length of the longest bar
    differ = "differs" if len(beyond) == 1 else "differ"
    return {
        "heading": f"{len(beyond)} of {plural(len(audit.slices), 'slice')} {differ} from all other texts beyond chance",
        "note": "bar: error rate · line: 95 % interval · tick: all other texts",
        "rows": [
            {
                "name": _slice_name(row),
                "bar": [round(value / most, 4) for value in (row.rate, row.low, row.high, row.rest)],
                "mark": "\N{BLACK DIAMOND} beyond chance" if row.Index in beyond else "",
                "rate": percent(row.rate, 0),
                "text": _slice_text(row, row.Index in beyond),
            }
            for row in rows
        ],
    }


def _slice_text(row: Any, is_beyond: bool) -> str:
    interval = f"{percent(row.low, 0)} to {percent(row.high, 0)}, elsewhere {percent(row.rest, 0)}"
    often = f" · {row.toward} {_signed(row.excess)} too often" if is_beyond and row.toward and row.excess else ""
    return f"({interval}) · {plural(row.texts, 'text')}{often}"


def _slice_name(row: Any) -> str:
    return f"{row.slice}: {row.value}"


def behind_words(audit: Audit, number: int) -> Remark | None:
    """What is behind a mistake about a text, or nothing if it is none."""
    mistake = next((each for each in audit.corrections if each.text == number), None)
    if mistake is None or audit.labels is None:
        return None
    if not mistake.words:
        return "", "Hiding a few words does not correct it."
    names = plain(in_row([[("for", quoted_word(word))] for word in mistake.words]))
    rule = "no fewer words do" if mistake.exact else "fewer may do"
    return "", f"Hiding {names} corrects it{f'; {rule}' * (len(mistake.words) > 1)}."


def _outcome(audit: Audit, text: int, after: int) -> str:
    """Whether another decision about a text is "corrected" or "broken", if it is either."""
    if audit.labels is None or after == audit.predictions[text]:
        return ""
    label = audit.labels[text]
    return "corrected" if after == label else "broken" if audit.predictions[text] == label else ""


def words_heading(audit: Audit) -> str:
    words, turns = audit.beyond_chance[0], int((audit.words.kind == "turns").sum())
    verb = f"{'pull' if audit.labels is None else 'mislead'}{'s' * (1 in (len(words), len(audit.words)))}"
    both_ways = f"; {turns} {'turns' if turns == 1 else 'turn'} decisions, for and against" if turns else ""
    return f"{len(words)} of {plural(len(audit.words), 'word')} {verb} the model beyond chance{both_ways}"


def _word(row: Mapping[Any, Any], ends: Sequence[str], most: int, judged: bool) -> Wired:
    """A row of the words, and what its columns are sorted by."""
    label, kind = speaks_for(row), KINDS[row["kind"]]
    columns = JUDGED if judged else NEUTRAL
    values = [[row[f"{name}{end}"] for end in ends] for _, _, name in columns]
    return {
        "word": row["word"],
        "name": word_name(row["word"]),
        "kind": kind,
        "cells": [label, str(row["texts"]), *map(partial(_cell, most), columns, values)],
        "values": [row["word"], label, int(row["texts"]), *(_number(each[0]) for each in values)],
        "line": "".join(_measured(row, label, ends, judged)),
    }


def _signs(records: Sequence[Mapping[Any, Any]]) -> list[str]:
    """What each sign after a word says."""
    signs: dict[str, list[str]] = {}
    for kind in dict.fromkeys(KINDS[row["kind"]] for row in records if row["kind"]):
        signs.setdefault(kind[0], []).append(kind[2:])
    return [f"{sign} {' or '.join(said)}" for sign, said in signs.items()]


def _cell(most: int, column: tuple[str, str, str], values: Sequence[Any]) -> str | dict[str, list[float]]:
    """A number of each model, or the lengths of their bars to the left or to the right."""
    _, kind, _ = column
    if kind in ("left", "right"):
        return {kind: [round(int(value) / most, 4) for value in values]}
    return " | ".join({"share": _signed, "score": _score}.get(kind, str)(value) for value in values)


def _measured(row: Mapping[Any, Any], label: str, ends: Sequence[str], judged: bool) -> Iterator[str]:
    """All that was measured of a word."""
    yield f"{f' · speaks for {label}' if label else ''} · {plural(row['texts'], 'text')}"
    for name, end in zip("AB", ends, strict=False):
        owner = f"{name}: " if len(ends) > 1 else ""
        did = f"changes {row[f'flips{end}']}"
        if judged:
            did = f"corrects {row[f'corrects{end}']}, breaks {row[f'breaks{end}']}"
        pull, low, high = (_score(row[f"{part}{end}"]) for part in ("pull", "low", "high"))
        yield f" · {owner}{did} · pull {pull} ({low} to {high})"
        yield f" · {_signed(row[f'excess{end}'])} too often" if judged else ""
    kind = KINDS[row["kind"]]
    yield f" · a random word changes {row['flips_random']} · p {p_text(adjusted_p(row))}{f' {kind}' if kind else ''}"


def _signed(share: float) -> str:
    return f"{'+' if share > 0 else ''}{percent(share, 0)}" if np.isfinite(share) else NONE


def _score(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}") if np.isfinite(value) else NONE


def _number(value: Any) -> float | None:
    """A number that JSON can hold."""
    return None if value is None or not np.isfinite(value) else round(float(value), 4)
