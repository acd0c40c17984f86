"""Target: the output of the model that is being explained, as a weighted sum of its logits."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nbsal.errors import InputError, UnknownName
from nbsal.model.tokenize import token_name
from nbsal.model.tokens import Row

if TYPE_CHECKING:
    from nbsal.model.subject import Subject


@dataclass(frozen=True)
class Contrast:
    """Why one target rather than another: the difference of their logits."""

    first: Any
    second: Any


def contrast(first: Any, second: Any) -> Contrast:
    """The difference between two targets, to be explained as one.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> explain("A joy.", target=nbsal.contrast("positive", "negative")).target
    'positive - negative'
    """
    return Contrast(first, second)


@dataclass(frozen=True)
class Target:
    """What is explained of one text: how it is called, and the logits (index, weight) that it sums."""

    label: str
    terms: tuple[tuple[tuple[int, ...], float], ...]

    def ends(self) -> "list[Target]":
        """Its terms, each a target of its own."""
        return [Target(self.label, (term,)) for term in self.terms]

    def value(self, logits: Tensor) -> Tensor:
        """The explained number, from the logits of that text; axes that follow them stay."""
        return torch.stack([weight * logits[index] for index, weight in self.terms]).sum(0)


@dataclass(frozen=True)
class Decision:
    """What the model says about one text."""

    label: str
    probabilities: Tensor
    target: Target


def decide(subject: "Subject", row: Row, logits: Tensor, wanted: Any) -> Decision:
    """The model's own decision, and what is to be explained: the decision itself unless something else is wanted."""
    resolve = _TASKS[subject.task]
    label, probabilities, target = resolve(subject, row, logits, None)
    if isinstance(wanted, Target):
        target = wanted
    elif wanted is not None:
        target = _wanted(subject, row, logits, wanted)
        if subject.task in ("token", "next-token"):
            # The decision shown beside a target at some position is the one taken at that position.
            position = target.terms[0][0][0]
            label, probabilities, _ = resolve(subject, row, logits, (position, None))
    return Decision(label, probabilities, target)


def _wanted(subject: "Subject", row: Row, logits: Tensor, wanted: Any) -> Target:
    if isinstance(wanted, Contrast):
        first, second = (_wanted(subject, row, logits, part) for part in (wanted.first, wanted.second))
        terms = first.terms + tuple((index, -weight) for index, weight in second.terms)
        return Target(f"{first.label} - {second.label}", terms)
    return _TASKS[subject.task](subject, row, logits, wanted)[2]


Resolved = tuple[str, Tensor, Target]


def _sequence(subject: "Subject", row: Row, logits: Tensor, wanted: Any) -> Resolved:
    config = subject.model.config
    if len(logits) == 1:  # regression and one-logit heads: the output itself
        index = 0 if wanted is None else index_of(wanted, subject.labels, "label")
        shown, probabilities = f"{float(logits[0]):.4g}", logits.new_empty(0)
        return shown, probabilities, Target(subject.labels[index], (((0,), 1.0),))
    several = config.problem_type == "multi_label_classification"
    probabilities = logits.sigmoid() if several else logits.softmax(-1)
    best = int(logits.argmax())
    index = best if wanted is None else index_of(wanted, subject.labels, "label")
    return subject.labels[best], probabilities, Target(subject.labels[index], (((index,), 1.0),))


def _span(subject: "Subject", row: Row, logits: Tensor, wanted: Any) -> Resolved:
    best = _best_span(row, logits)
    ends = best if wanted is None else _ends(wanted, len(row))
    terms = tuple(((position, side), 1.0) for side, position in enumerate(ends) if position is not None)
    start, end = ends
    if start is None or end is None:
        (position, side), _ = terms[0]
        label = f"{subject.labels[side]} at {row.tokens[position]} [{position}]"
    else:
        label = f"{spelt(row, start, end)} [{start}:{end}]"
    return spelt(row, *best), logits.softmax(0), Target(label, terms)


def _ends(wanted: Any, size: int) -> tuple[int | None, int | None]:
    """(start, end) as given; one of them may be None, to explain the other alone."""
    start, end = _pair(wanted, "A span target is (start, end), two token indices")
    for position in (start, end):
        if position is not None and not 0 <= position < size:
            raise InputError(f"There is no token at position {position}: a span lies within 0 to {size - 1}.")
    if start is None and end is None:
        raise InputError("A span target names its start, its end, or both.")
    return start, end


def _best_span(row: Row, logits: Tensor) -> tuple[int, int]:
    """The likeliest span with start <= end among content tokens of the context."""
    last = max(row.segments)
    allowed = torch.tensor([i for i in row.content if row.segments[i] == last] or list(row.content))
    scores = logits[allowed, 0][:, None] + logits[allowed, 1][None]
    scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).triu(), -torch.inf)
    first, second = divmod(int(scores.argmax()), len(allowed))
    return int(allowed[first]), int(allowed[second])


def spelt(row: Row, start: int, end: int) -> str:
    """The text between two tokens as typed; both tokens where there is no such text."""
    inside = row.segments[start] == row.segments[end] and not (row.special[start] or row.special[end])
    if inside and start <= end:
        return row.parts[row.segments[start]][row.offsets[start][0] : row.offsets[end][1]]
    return f"{row.tokens[start]} ... {row.tokens[end]}"


def _token(subject: "Subject", row: Row, logits: Tensor, wanted: Any) -> Resolved:
    probabilities = logits.softmax(-1)
    if wanted is None:  # the content token the model is surest about, "O" (nothing here) aside
        sure, best = probabilities.max(-1)
        named = [i for i in row.content if subject.labels[int(best[i])] != "O"] or list(row.content)
        wanted = (max(named, key=lambda i: float(sure[i])), None)
    position, label = _pair(wanted, "A token target is (position, label)", whole=False)
    position = _position(position, row)
    predicted = int(logits[position].argmax())
    index = predicted if label is None else index_of(label, subject.labels, "label")
    target = Target(f"{subject.labels[index]} at {row.tokens[position]} [{position}]", (((position, index), 1.0),))
    return subject.labels[predicted], probabilities[position], target


_NEXT = "A next-token target is a token, or (position, token)"


def _next(subject: "Subject", row: Row, logits: Tensor, wanted: Any) -> Resolved:
    position, token = _pair(wanted, _NEXT, whole=False) if isinstance(wanted, tuple) else (row.last, wanted)
    position = _position(position, row)
    predicted = int(logits[position].argmax())
    index = predicted if token is None else _token_id(subject, token, logits.shape[-1])
    name = token_name(subject.tokenizer, index)
    shown = name if position == row.last else f"{name} after {row.tokens[position]} [{position}]"
    target = Target(shown, (((position, index), 1.0),))
    return token_name(subject.tokenizer, predicted), logits[position].softmax(-1), target


_TASKS: dict[str, Callable[["Subject", Row, Tensor, Any], Resolved]] = {
    "sequence": _sequence,
    "span": _span,
    "token": _token,
    "next-token": _next,
}


def index_of(wanted: Any, names: list[str], kind: str) -> int:
    """The number of a label given by name or number."""
    if isinstance(wanted, str) and wanted in names:
        return names.index(wanted)
    try:
        index = operator.index(wanted)
    except TypeError:
        index = -1
    if not 0 <= index < len(names):
        raise UnknownName(kind, wanted, [*names, f"0 to {len(names) - 1}"])
    return index


def _pair(wanted: Any, sentence: str, whole: bool = True) -> tuple[Any, Any]:
    try:
        first, second = wanted
        if not whole:
            return first, second
        return tuple(None if end is None else operator.index(end) for end in (first, second))  # type: ignore[return-value]
    except (TypeError, ValueError):
        raise InputError(f"{sentence}, not {wanted!r}.") from None


def _position(wanted: Any, row: Row) -> int:
    try:
        position = operator.index(wanted)
    except TypeError:
        position = -1
    if not 0 <= position < len(row):
        raise InputError(f"There is no token at position {wanted!r}: positions run from 0 to {len(row) - 1}.")
    return position


def _token_id(subject: "Subject", wanted: Any, size: int) -> int:
    if isinstance(wanted, str):
        if subject.tokenizer is None:
            raise InputError("A token given as text needs a tokenizer: give its id.")
        # A word that comes next carries its leading space where the tokenizer has such tokens.
        for text in (" " + wanted, wanted):
            ids = subject.tokenizer(text, add_special_tokens=False)["input_ids"]
            if len(ids) == 1:
                return int(ids[0])
        known = subject.tokenizer.get_vocab()
        if wanted in known:  # a token by its own name, "##ing" or "Ġthe"
            return int(known[wanted])
        raise InputError(f"{wanted!r} is no single token of this model: it reads {subject.tokenizer.tokenize(wanted)}.")
    try:
        index = operator.index(wanted)
    except TypeError:
        index = -1
    if not 0 <= index < size:
        raise InputError(f"There is no token {wanted!r}: give a token's text, or its id from 0 to {size - 1}.")
    return index
