"""Named entities as targets: a label over several words, and the entities that a tagger predicts."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from nbsal.model.text.tokens import Row, Span, Word
from nbsal.support.errors import InputError, UnknownName

OUTSIDE = "O"  # the label of words of no entity
Labelled = tuple[int, int]  # a position and the index of a label there


def words_at(row: Row, place: Any) -> list[Word]:
    """The words of a text that a place names: a piece of the text, or its first and last character."""
    segment, (start, end) = _find(row, place) if isinstance(place, str) else (0, _check_span(row, place))
    words = [word for word in row.words if word.segment == segment and word.start < end and word.end > start]
    if not words:
        raise InputError(f"target names {place!r}, where no word stands.", argument="target", value=place)
    return words


def labelled_positions(labels: Sequence[str], words: Sequence[Word], logits: Tensor, kind: str) -> list[Labelled]:
    """The first token of each word, with the label of that kind: the likelier one of B- and I-."""
    names = [kind] if kind in labels else [name for name in (f"B-{kind}", f"I-{kind}") if name in labels]
    if not names:
        raise UnknownName("target", kind, kinds(labels))
    indices = [labels.index(name) for name in names]
    positions = [word.tokens[0] for word in words]
    return [(position, max(indices, key=lambda index: float(logits[position, index]))) for position in positions]


def predicted_entities(labels: Sequence[str], row: Row, logits: Tensor) -> list[tuple[list[Word], str]]:
    """The entities that a tagger predicts, as words and a kind; the first token decides for its word.

    A word belongs to the entity before it if it has the same kind and its label does not begin with B-.
    """
    entities: list[tuple[list[Word], str]] = []
    before = OUTSIDE
    for word in row.words:
        label = labels[int(logits[word.tokens[0]].argmax())]
        kind = _kind(label)
        if kind != OUTSIDE:
            if kind == before and not label.startswith("B-") and entities[-1][0][-1].segment == word.segment:
                entities[-1][0].append(word)
            else:
                entities.append(([word], kind))
        before = kind
    return entities


def kinds(labels: Sequence[str]) -> list[str]:
    """The kinds of entities that labels name, in their order."""
    return list(dict.fromkeys(map(_kind, labels)))


def text_at(row: Row, words: Sequence[Word]) -> str:
    """The text from the first of some words to the last, with its place."""
    start, end = words[0].start, words[-1].end
    return f"{row.parts[words[0].segment][start:end]} [{start}:{end}]"


def _kind(label: str) -> str:
    return label[2:] if label[:2] in ("B-", "I-") else label


def _find(row: Row, piece: str) -> tuple[int, Span]:
    """Where a piece of text stands; it must stand in one place only, as typed or else in any case."""
    for texts, sought in ((row.parts, piece), ([part.lower() for part in row.parts], piece.lower())):
        counts = [text.count(sought) if sought else 0 for text in texts]
        if sum(counts) == 1:
            segment = counts.index(1)
            start = texts[segment].index(sought)
            return segment, (start, start + len(piece))
        if sum(counts) > 1:
            message = f"{piece!r} stands in {sum(counts)} places of the text. Pass its first and last character."
            raise InputError(message, argument="target", value=piece)
    raise InputError(f"target names {piece!r}, which is not in the text.", argument="target", value=piece)


def _check_span(row: Row, place: Any) -> Span:
    size = len(row.parts[0])
    try:
        start, end = place
        valid = 0 <= start < end <= size
    except (TypeError, ValueError):
        valid = False
    if not valid:
        message = f"target names {place!r}. Pass a piece of the text, or (start, end) of 0 to {size} characters."
        raise InputError(message, argument="target", value=place)
    return int(start), int(end)
