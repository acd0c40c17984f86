"""The output of the model that is explained, as a weighted sum of logits."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nbsal.model.loading.kinds import reads_single_texts
from nbsal.model.loading.usage import ZeroShot
from nbsal.model.running.layers import forward_mode
from nbsal.model.subject import Subject
from nbsal.model.target import Contrast, Decision, Target
from nbsal.model.text import entities
from nbsal.model.text.tokenize import named_token, token_name
from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.errors import InputError, ModelError, UnknownName, listed
from nbsal.support.validation import Text


def decide(subject: Subject, row: Row, logits: Tensor, requested: Any) -> Decision:
    """The model's prediction and the requested target; by default the target is the prediction."""
    resolve = _TASKS[subject.task]
    outputs, labels = logits.shape[-1], len(subject.labels)
    if subject.task in ("sequence", "token") and not subject.usage.zero_shot and outputs != labels:
        message = f"{subject.name} has {outputs} outputs, but its configuration names {labels} labels."
        raise ModelError(message, part="labels")
    target, reported = requested, None
    if requested is not None and not isinstance(requested, Target):
        target = _resolve_target(subject, row, logits, requested)
        if subject.task in POSITIONAL:  # the prediction that is reported is the one at the target's position
            reported = (target.terms[0][0][0], None)
    label, probabilities, default = resolve(subject, row, logits, reported)
    return Decision(label, probabilities, default if target is None else target)


def _resolve_target(subject: Subject, row: Row, logits: Tensor, requested: Any) -> Target:
    if isinstance(requested, Contrast):
        parts = (requested.first, requested.second)
        if subject.task == "token" and isinstance(parts[0], tuple) and isinstance(parts[1], str):
            parts = (parts[0], (parts[0][0], parts[1]))  # another label in the same place
        first, second = (_resolve_target(subject, row, logits, part) for part in parts)
        if first.terms == second.terms:
            message = f"The contrast of {first.label} with itself is zero for every text. Choose two different targets."
            raise _refusal(message, requested)
        terms = first.terms + tuple((index, -weight) for index, weight in second.terms)
        return Target(f"{first.label} - {second.label}", terms)
    return _TASKS[subject.task](subject, row, logits, requested)[2]


def every_target(subject: Subject, encoded: Encoded) -> list[Any]:
    """All that one text is decided on: each label, or each entity that a tagger predicts."""
    if subject.task == "token":
        (row,) = encoded
        predicted = entities.predicted_entities(subject.labels, row, _logits(subject, encoded)[0])
        spans = [((words[0].start, words[-1].end), kind) for words, kind in predicted if words[0].segment == 0]
        return spans or [None]
    if subject.task != "sequence":
        message = f'target="all" explains labels or entities, and {subject.name} has neither. Choose a target.'
        raise _refusal(message, "all")
    return list(range(len(subject.labels)))


POSITIONAL = ("token", "next-token", "masked")  # tasks with one output a position
Resolved = tuple[str, Tensor, Target]  # the predicted label, its probabilities, the target


def rows_for_targets(subject: Subject, encoded: Encoded, targets: Sequence[Any]) -> Encoded:
    """The texts with the hypotheses of their targets, for zero-shot labels; other texts as they are."""
    choice = subject.usage.zero_shot
    if choice is None:
        return encoded
    pairs: list[Text] = []
    for row, target in zip(encoded, targets, strict=True):
        text = row.parts[0]
        if isinstance(target, Contrast):
            raise _refusal("Zero-shot labels are read in passes of their own. Explain each label by itself.", target)
        if target is None:
            label = int(_label_probabilities(subject, choice, text).argmax())
        else:
            label = label_index(target, subject.labels, "target")
        pairs.append((text, choice.hypothesis(label)))
    return subject.encode(pairs)


def _label_probabilities(subject: Subject, choice: ZeroShot, text: str) -> Tensor:
    """The probability of each label, from the logits of the text with each hypothesis."""
    return choice.probabilities(_logits(subject, subject.encode([*choice.pairs(text)])))


def _logits(subject: Subject, encoded: Encoded) -> Tensor:
    """The logits of some texts, outside any explanation."""

    def run() -> Tensor:
        with forward_mode(gradients=False):
            alone = [encoded[i : i + 1] for i in range(len(encoded))] if subject.unbatchable else [encoded]
            return torch.cat([subject.logits(subject.inputs(part)) for part in alone])

    return subject.exclusively(run)


def _resolve_zero_shot(subject: Subject, choice: ZeroShot, row: Row, logits: Tensor) -> Resolved:
    """The best label, the probabilities of all, and the label whose hypothesis is in this row as the target."""
    probabilities = _label_probabilities(subject, choice, row.parts[0])
    label = subject.labels[choice.label(row.parts)]
    target = Target(label, choice.terms(logits.shape[-1]))
    return subject.labels[int(probabilities.argmax())], probabilities, target


def _resolve_class(subject: Subject, row: Row, logits: Tensor, requested: Any) -> Resolved:
    if subject.usage.zero_shot is not None:
        return _resolve_zero_shot(subject, subject.usage.zero_shot, row, logits)
    regression = is_regression(subject)
    best = int(logits.abs().argmax() if regression else logits.argmax())
    advice = _second_text(subject, row, requested)
    index = best if requested is None else label_index(requested, subject.labels, "target", advice)
    target = Target(subject.labels[index], (((index,), 1.0),))
    if regression:
        return describe_values(subject.labels, logits.tolist()), logits.new_empty(0), target
    return subject.labels[best], logits.sigmoid() if subject.activation == "sigmoid" else logits.softmax(-1), target


def is_regression(subject: Subject) -> bool:
    """Whether the outputs of a sequence head are values, which have no probabilities.

    By default the output with the largest absolute value is explained.
    """
    return subject.task == "sequence" and subject.activation == "none"


def describe_values(labels: Sequence[str], values: Sequence[float]) -> str:
    """The outputs of a regression in words, with their labels where there are several."""
    if len(values) == 1:
        return f"{values[0]:.4g}"
    return ", ".join(f"{label} {value:.4g}" for label, value in zip(labels, values, strict=True))


def _resolve_span(subject: Subject, row: Row, logits: Tensor, requested: Any) -> Resolved:
    best = best_span(row, logits)
    ends = best if requested is None else _check_span(requested, len(row), _second_text(subject, row, requested))
    terms = tuple(((position, side), 1.0) for side, position in enumerate(ends) if position is not None)
    start, end = ends
    if start is None or end is None:
        (position, side), _ = terms[0]
        label = f"{subject.labels[side]} at {_read_at(row, position)} [{position}]"
    else:
        label = f"{span_text(row, start, end)} [{start}:{end}]"
    return span_text(row, *best), logits.softmax(0), Target(label, terms)


def best_span(row: Row, logits: Tensor) -> tuple[int, int]:
    """The most probable span with start <= end among the content tokens of the context."""
    context = max(row.segments)
    allowed = torch.tensor([i for i in row.content if row.segments[i] == context] or list(row.content))
    scores = logits[allowed, 0][:, None] + logits[allowed, 1][None]
    scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).triu(), -torch.inf)
    first, second = divmod(int(scores.argmax()), len(allowed))
    return int(allowed[first]), int(allowed[second])


def span_text(row: Row, start: int, end: int) -> str:
    """The original text between two tokens; both tokens where there is no such text."""
    same_text = row.segments[start] == row.segments[end] and not (row.special[start] or row.special[end])
    if same_text and start <= end:
        return row.parts[row.segments[start]][row.offsets[start][0] : row.offsets[end][1]]
    return f"{_read_at(row, start)} ... {_read_at(row, end)}"


def _read_at(row: Row, position: int) -> str:
    """What stands at a position: the text as typed, or the name of a special token."""
    return row.parts[row.segments[position]][slice(*row.offsets[position])] or row.tokens[position]


def _resolve_token(subject: Subject, row: Row, logits: Tensor, requested: Any) -> Resolved:
    probabilities = logits.softmax(-1)
    if requested is None:  # the content token with the most confident label, preferably not "O" (no entity)
        confidence, best = probabilities.max(-1)
        entities = [i for i in row.content if subject.labels[int(best[i])] != "O"] or list(row.content)
        requested = (max(entities, key=lambda i: float(confidence[i])), None)
    place, label = _check_pair(requested, "(position, label) or (entity, label)")
    if isinstance(place, str | tuple | list):
        return _resolve_entity(subject, row, logits, place, label)
    position = _check_position(place, len(row), place)
    predicted = int(logits[position].argmax())
    index = predicted if label is None else label_index(label, subject.labels, "target")
    target = Target(f"{subject.labels[index]} at {_read_at(row, position)} [{position}]", (((position, index), 1.0),))
    return subject.labels[predicted], probabilities[position], target


def _resolve_entity(subject: Subject, row: Row, logits: Tensor, place: Any, kind: Any) -> Resolved:
    """The label of an entity: the mean of its logits at the first token of each word."""
    words = entities.words_at(row, place)
    first = words[0].tokens[0]
    predicted = subject.labels[int(logits[first].argmax())]
    if not isinstance(kind, str):
        kind = predicted if kind is None else subject.labels[label_index(kind, subject.labels, "target")]
    pairs = entities.labelled_positions(subject.labels, words, logits, kind)
    terms = tuple((pair, 1 / len(pairs)) for pair in pairs)
    return predicted, logits[first].softmax(-1), Target(f"{kind} at {entities.text_at(row, words)}", terms)


def _resolve_next_token(subject: Subject, row: Row, logits: Tensor, requested: Any) -> Resolved:
    position, token = _position_and_token(requested, lambda: row.last, row)
    place = "" if position == row.last else f" after {_read_at(row, position)} [{position}]"
    return _resolve_vocabulary(subject, logits[position], position, token, place)


def _resolve_masked(subject: Subject, row: Row, logits: Tensor, requested: Any) -> Resolved:
    position, token = _position_and_token(requested, lambda: _mask_position(subject, row), row)
    place = f" at {_read_at(row, position)} [{position}]"
    return _resolve_vocabulary(subject, logits[position], position, token, place)


def _resolve_reply(subject: Subject, row: Row, logits: Tensor, requested: Any) -> Resolved:
    """The token that a decoder writes after what it has read; any other place is a `Target` of `nbsal.answer`."""
    position = sum(row.types) - 1
    return _resolve_vocabulary(subject, logits[position], position, requested, "")


def _position_and_token(requested: Any, default: Callable[[], int], row: Row) -> tuple[int, Any]:
    if not isinstance(requested, tuple):
        return default(), requested
    position, token = _check_pair(requested, "a token, or (position, token)")
    return _check_position(position, len(row), position), token


def _resolve_vocabulary(subject: Subject, logits: Tensor, position: int, token: Any, place: str) -> Resolved:
    """A token of the vocabulary, from its logits at a position; `place` says in words where that is."""
    predicted = int(logits.argmax())
    index = predicted if token is None else token_id(subject, token, len(logits))
    target = Target(token_name(subject.tokenizer, index) + place, (((position, index), 1.0),))
    return token_name(subject.tokenizer, predicted), logits.softmax(-1), target


def _mask_position(subject: Subject, row: Row) -> int:
    """The position of the only mask token of a text."""
    mask = getattr(subject.tokenizer, "mask_token_id", None)
    places = [i for i, token in enumerate(row.ids) if token == mask]
    if len(places) != 1:
        name = getattr(subject.tokenizer, "mask_token", None) or "mask token"
        problem = f"There is no {name} in this text" if not places else f"This text has {len(places)} {name}"
        raise _refusal(f"{problem}. Put one where a token is to be predicted, or pass target=(position, token).", None)
    return places[0]


_TASKS: dict[str, Callable[[Subject, Row, Tensor, Any], Resolved]] = {
    "sequence": _resolve_class,
    "span": _resolve_span,
    "token": _resolve_token,
    "next-token": _resolve_next_token,
    "masked": _resolve_masked,
    "reply": _resolve_reply,
}


def _second_text(subject: Subject, row: Row, requested: Any) -> str:
    """What an error about a target adds where it may be the second text of a pair."""
    may_be = isinstance(requested, str) and len(row.parts) == 1 and not reads_single_texts(subject.model)
    return ' If it is a second text, pass a tuple: explain(("first text", "second text")).' if may_be else ""


def label_index(label: Any, names: list[str], argument: str, advice: str = "") -> int:
    """The index of a label that is a name or an index; errors name the `argument` and end with the advice."""
    if isinstance(label, str) and label in names:
        if names.count(label) > 1:
            message = f"{argument}={label!r} names several classes. Pass the number of one, from 0 to {len(names) - 1}."
            raise InputError(message, argument=argument, value=label)
        return names.index(label)
    index = _index(label, len(names))
    if index is None:
        numbers = "0 or 1" if len(names) == 2 else f"0 to {len(names) - 1}"
        choice = f"Choose a label ({listed(names)}) or its number ({numbers}).{advice}"
        raise UnknownName(argument, label, [*names, numbers], choice=choice)
    return index


def _check_span(requested: Any, size: int, advice: str = "") -> tuple[int | None, int | None]:
    """(start, end) as token indices; one of them may be None, to explain only the other."""
    rule = "(start, end), two token indices, one of which may be None"
    if isinstance(requested, str):
        raise _refusal(f"target={requested!r:.80} must be {rule}.{advice}", requested)
    first, second = _check_pair(requested, rule)
    if first is None and second is None:
        raise _refusal(f"target={requested!r} must be {rule}.", requested)
    start, end = (None if end is None else _check_position(end, size, requested) for end in (first, second))
    return start, end


def _check_pair(requested: Any, rule: str) -> tuple[Any, Any]:
    try:
        first, second = requested
    except (TypeError, ValueError):
        raise _refusal(f"target={requested!r} must be {rule}.", requested) from None
    return first, second


def _check_position(value: Any, size: int, requested: Any) -> int:
    position = _index(value, size)
    if position is None:
        raise _refusal(f"target names position {value!r}. Positions run from 0 to {size - 1}.", requested)
    return position


def _index(value: Any, size: int) -> int | None:
    """The value as an index of something of that size, if it is one."""
    try:
        index = operator.index(value)
    except TypeError:
        return None
    return index if 0 <= index < size else None


def _refusal(message: str, value: object) -> InputError:
    return InputError(message, argument="target", value=value)


def token_id(subject: Subject, token: Any, size: int, argument: str = "target") -> int:
    """The id of a token that is passed, as that argument, as text or as its id."""
    if isinstance(token, str):
        return _parse_token(subject, token, argument)
    index = _index(token, size)
    if index is None:
        message = f"{argument}={token!r} is not a token. Pass a token's text, or its id from 0 to {size - 1}."
        raise InputError(message, argument=argument, value=token)
    return index


def _parse_token(subject: Subject, token: str, argument: str) -> int:
    """The id of a token given as text."""
    if subject.tokenizer is None:
        message = f"{argument}={token!r}, but this subject has no tokenizer. Pass the token's id."
        raise InputError(message, argument=argument, value=token)
    if (index := named_token(subject.tokenizer, token)) is not None:
        return index
    # The token of a word that continues the text includes the space before it, if the tokenizer has such tokens.
    unknown = subject.tokenizer.unk_token_id
    for text in (" " + token, token):
        ids = subject.tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) == 1 and ids[0] != unknown:
            return int(ids[0])
    if unknown in ids:
        problem = f"is not in the model's vocabulary: its tokenizer reads {subject.tokenizer.unk_token!r}. Choose"
        message = f"{argument}={token!r} {problem} another token."
    else:
        pieces = subject.tokenizer.tokenize(token)
        message = f"{argument}={token!r} is not a single token but {pieces}. Choose one of its tokens."
    raise InputError(message, argument=argument, value=token)
