"""What an explanation of a text shows: the sentence, the text in colours, the classes, the words by their scores."""

from collections.abc import Sequence
from typing import Any

from nbsal.explain.explained import MOST, Floats, share_texts, share_warning, special_share
from nbsal.explain.ranked import WORDS, hidden_alone
from nbsal.explain.sentences.statement import Statement
from nbsal.model.text.tokens import Row
from nbsal.render.colours import GREY
from nbsal.render.headline import change_words, name_in_sentence, percent, phrases
from nbsal.render.html import ScoredSpan, label, largest_score
from nbsal.render.scores import score_texts
from nbsal.render.sheet import (
    ONE_SIDED,
    Bar,
    Block,
    Cell,
    CellTable,
    Choice,
    Heading,
    Legend,
    Line,
    Marked,
    Note,
    Sentence,
    Sheet,
)

CLASSES = 6  # that are listed

Parts = Sequence[Sequence[ScoredSpan]]
Probabilities = Sequence[tuple[str, float]]


def saliency_sheet(
    saliency: Any, level: str = "word", statement: Statement | None = None, classes: Probabilities | None = None
) -> Sheet:
    """All that is shown of an explanation; `classes` are the likeliest, of which it knows only the first."""
    statement = statement or saliency.statement()
    blocks = [
        *text_blocks(saliency, saliency.scored_spans(level), statement, classes, level=level),
        *word_bars(saliency, level),
    ]
    return Sheet(statement.text(), blocks, saliency.notes())


def text_blocks(
    saliency: Any,
    parts: Parts,
    statement: Statement,
    classes: Probabilities | None = None,
    largest: float = 0.0,
    level: str = "word",
) -> list[Block]:
    """A text under what is said of it, and above its share of the scores and the classes."""
    text = marked_text(saliency, parts, statement, largest, level)
    return [*text, *share_lines(saliency), *class_line(saliency, classes)]


def marked_text(
    saliency: Any, parts: Parts, statement: Statement, largest: float = 0.0, level: str = "word"
) -> list[Block]:
    """A text under what is said of it."""
    against = any((span.score or 0.0) < 0 for part in parts for span in part)
    return [
        Sentence(statement.sentence, statement.notes),
        Marked(parts, largest or largest_score(parts)),
        Legend(against, _high(saliency), _unit(saliency, level)),
    ]


def word_bars(saliency: Any, level: str = "word") -> list[Block]:
    """The words or tokens with the largest scores, the strongest first."""
    ranked = saliency.ranked_words(WORDS, level)
    listed = [word.score for word in ranked]
    largest = max(map(abs, listed), default=0.0) or 1.0
    texts, power = score_texts(listed)
    low, high = (bound(0.0, *listed) / largest for bound in (min, max))
    bars = [Bar(score / largest, low, high or 1.0) for score in listed]
    rows: list[list[Cell]] = [[word.label, bar, text] for word, bar, text in zip(ranked, bars, texts, strict=True)]
    if alone := dict(hidden_alone(saliency.row, saliency.check)):
        effects = [[alone[word.tokens]] if word.tokens in alone else "" for word in ranked]
        rows = [[*row, effect] for row, effect in zip(rows, effects, strict=True)]
    unit = " · ".join(filter(None, [saliency.unit, power]))
    return [Heading([("text", strongest_heading(saliency.row))], unit), CellTable(rows, right=(2, 3))]


def strongest_heading(row: Row) -> str:
    """The heading of a list of words by their scores, or of parts that are scored as one."""
    return "Strongest parts" if row.units else "Strongest words"


def class_line(saliency: Any, classes: Probabilities | None = None) -> list[Line]:
    """The likeliest classes and the explained one, with their probabilities; nothing where there are none."""
    if classes is None:
        decided = saliency.confidence is not None and saliency.probabilities.ndim == 1
        classes = [(saliency.prediction, saliency.confidence)] if decided else []
    first = len(classes) if len(classes) <= CLASSES + 1 else CLASSES
    listed = [pair for number, pair in enumerate(classes) if number < first or pair[0] == saliency.target]
    more = len(classes) - len(listed)
    choices = [Choice(name, share, percent(share), name == saliency.target) for name, share in listed]
    return [Line([*choices, *([f"{more} more"] if more else [])])] if choices else []


def changes_table(changes: Sequence[tuple[str, float, float]]) -> CellTable:
    """Classes with their probabilities before some change and now."""
    rows = []
    for name, before, now in changes:
        first, second = change_words(before, now)
        value = phrases(f"{first} → ", ("class", second)) if before != now else phrases(("class", percent(now)))
        rows.append((label(name), Bar(now, hue=GREY), value))
    return CellTable(rows, right=(2,))


def share_lines(saliency: Any) -> list[Block]:
    """How the score divides between words and special tokens, with a warning if most lies on the latter."""
    return share_blocks(saliency.row, saliency.known_scores)


def share_blocks(row: Row, scores: Floats) -> list[Block]:
    """The same of any row of scores."""
    share = special_share(row, scores)
    words, special = share_texts(share)
    line = Line([words, Bar(1 - share, hue=GREY), special], small=True)
    return [line, Note(f"▲ {share_warning(row, scores)}")] if share > MOST else [line]


def _high(saliency: Any) -> str:
    return "for" if saliency.signed else f"for{ONE_SIDED}"


def _unit(saliency: Any, level: str) -> str:
    """What full colour is: the strongest word, or the word of the strongest token."""
    if level == "token":
        token = max(saliency.row.content, key=lambda i: abs(saliency.known_scores[i]))
        word = next((word for word in saliency.words if token in word.tokens), None)
        size = saliency.known_scores[token]
    else:
        best = max(range(len(saliency.words)), key=lambda number: abs(saliency.word_scores[number]), default=None)
        word, size = (None, 0.0) if best is None else (saliency.words[best], saliency.word_scores[best])
    return f"100\u202f% = {name_in_sentence(label(word.text))}" if word and size else ""
