"""Reading: texts through a tokenizer into Encoded, with offsets into the text as typed."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nbsal.encoding import Encoded, Row, Span, Text, tight, validated
from nbsal.errors import InputError, ModelError

if TYPE_CHECKING:
    from nbsal.subject import Subject

OVERLAP = 0.5  # share of a window that its neighbour reads again


def encode(subject: "Subject", text: Any, window: bool) -> Encoded:
    """One text or many as rows; the last check is that each has a token that may be scored."""
    tokenizer = _fast(subject)
    rows: list[Row] = []
    for one in validated(text):
        rows += _windows(subject, tokenizer, one) if window else [_row(subject, tokenizer, one)]
    return Encoded(rows, pad_id(subject))


def encode_ids(subject: "Subject", input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Encoded:
    """Rows for token ids made elsewhere; their text is spelt from the tokens."""
    ids = _rectangle("input_ids", input_ids)
    masks = [[1] * len(row) for row in ids] if attention_mask is None else _rectangle("attention_mask", attention_mask)
    types = [[0] * len(row) for row in ids] if token_type_ids is None else _rectangle("token_type_ids", token_type_ids)
    if not [len(row) for row in ids] == [len(row) for row in masks] == [len(row) for row in types]:
        raise InputError("input_ids, attention_mask and token_type_ids must have the same shape.")
    size = subject.model.config.vocab_size
    for row in ids:
        if not row:
            raise InputError("input_ids holds an empty sequence: there is nothing to explain.")
        if not all(0 <= i < size for i in row):
            raise InputError(f"input_ids holds an id outside the model's vocabulary of {size}.")
        if len(row) > subject.longest:
            raise InputError(f"input_ids has {len(row)} tokens, the model reads {subject.longest} at most: shorten it.")
    rows = [_scorable(_spelt(subject, *parts)) for parts in zip(ids, masks, types, strict=True)]
    return Encoded(rows, pad_id(subject))


def pad_id(subject: "Subject") -> int:
    """The id that fills up shorter rows; pooling decoders look for their own in the ids."""
    candidates = (subject.model.config.pad_token_id, getattr(subject.tokenizer, "pad_token_id", None), 0)
    return next(int(candidate) for candidate in candidates if candidate is not None)


def step(subject: "Subject") -> int:
    """How many tokens lie between the starts of two neighbouring windows."""
    width = subject.longest - subject.tokenizer.num_special_tokens_to_add()
    return max(1, int(width * (1 - OVERLAP)))


def whole(subject: "Subject", text: Text) -> Row:
    """A text as one row of any length, longer than the model reads perhaps."""
    parts = (text,) if isinstance(text, str) else text
    return _assemble(subject.tokenizer, text, _call(subject.tokenizer, parts), 0)


def check_tokenizer(model: Any, given: Any, own: Any) -> None:
    """Refuse a tokenizer that numbers tokens otherwise than the model does."""
    tokenizer = given or own
    if tokenizer is None:
        return
    size = model.config.vocab_size
    if len(tokenizer) > size:
        raise ModelError(
            f"The tokenizer knows {len(tokenizer)} tokens, the model {size}: it is the tokenizer of another model."
        )
    if given is not None and own is not None and given.get_vocab() != own.get_vocab():
        raise ModelError("The tokenizer numbers tokens otherwise than the model's own: it belongs to another model.")


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Ids that stand for structure, not for text; an unknown piece of text is text."""
    return frozenset(tokenizer.all_special_ids) - {tokenizer.unk_token_id} if tokenizer is not None else frozenset()


def _fast(subject: "Subject") -> Any:
    if subject.tokenizer is None:
        raise InputError(f"{subject.name} has no tokenizer: pass nbsal.load(..., tokenizer=...) or explain token ids.")
    if not subject.tokenizer.is_fast:
        raise InputError(f"{type(subject.tokenizer).__name__} gives no character offsets: pass a fast tokenizer.")
    return subject.tokenizer


def _row(subject: "Subject", tokenizer: Any, text: Text) -> Row:
    """A text as one row, cut to the model's length."""
    parts = (text,) if isinstance(text, str) else text
    # Of a question with its context only the context may be cut.
    cut = "only_second" if subject.task == "span" and len(parts) == 2 else "longest_first"
    whole = _call(tokenizer, parts)
    coded = whole
    if len(whole["input_ids"]) > subject.longest:
        coded = _call(tokenizer, parts, truncation=cut, max_length=subject.longest)
    return _scorable(_assemble(tokenizer, text, coded, len(whole["input_ids"]) - len(coded["input_ids"])))


def _scorable(row: Row) -> Row:
    if not row.content:
        raise InputError(f"No token of {row.text!r:.80} can be scored: it holds only special tokens.")
    return row


def _windows(subject: "Subject", tokenizer: Any, text: Text) -> Iterator[Row]:
    """A text as overlapping rows that together hold every token; pairs and spans are only ever cut."""
    if not isinstance(text, str) or subject.task == "span":
        raise InputError('long="window" reads single texts only: pairs and questions are cut (long="truncate").')
    width = subject.longest - tokenizer.num_special_tokens_to_add()
    coded = tokenizer(
        text,
        truncation=True,
        max_length=subject.longest,
        stride=width - step(subject),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_token_type_ids=True,
    )
    for i in range(len(coded["input_ids"])):
        piece = {name: values[i] for name, values in coded.items() if name != "overflow_to_sample_mapping"}
        piece["sequence_ids"] = coded.sequence_ids(i)
        yield _assemble(tokenizer, text, piece, 0)


def _call(tokenizer: Any, parts: Sequence[str], **cut: Any) -> dict[str, Any]:
    coded = tokenizer(
        *parts,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_token_type_ids=True,
        verbose=False,
        **cut,
    )
    return dict(coded) | {"sequence_ids": coded.sequence_ids(0)}


def _assemble(tokenizer: Any, text: Text, coded: dict[str, Any], dropped: int) -> Row:
    parts = (text,) if isinstance(text, str) else text
    ids, structure = coded["input_ids"], special_ids(tokenizer)
    segments = [part or 0 for part in coded["sequence_ids"]]
    offsets = [tight(parts[s], *span) for s, span in zip(segments, coded["offset_mapping"], strict=True)]
    return Row(
        text=text,
        ids=tuple(ids),
        tokens=tuple(tokenizer.convert_ids_to_tokens(ids)),
        offsets=tuple(offsets),
        segments=tuple(segments),
        special=tuple(bool(m) or i in structure for i, m in zip(ids, coded["special_tokens_mask"], strict=True)),
        types=tuple(coded["token_type_ids"]),
        mask=(1,) * len(ids),
        dropped=dropped,
    )


def _rectangle(name: str, values: Any) -> list[list[int]]:
    """Ids as a list of rows, whether they came as a list, an array or a tensor of one or two axes."""
    plain = values.tolist() if hasattr(values, "tolist") else list(values)
    rows = [list(row) for row in plain] if plain and isinstance(plain[0], list | tuple) else [plain]
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"{name} holds sequences of different lengths: pad them, or give one at a time.")
    if not all(isinstance(i, int) for row in rows for i in row):
        raise InputError(f"{name} must hold whole numbers, one sequence or a batch of sequences.")
    return rows


def _spelt(subject: "Subject", ids: list[int], mask: list[int], types: list[int]) -> Row:
    tokens, pieces = _pieces(subject.tokenizer, ids)
    text, offsets = "", list[Span]()
    for glued, piece in pieces:
        text += "" if glued or not text else " "
        offsets.append((len(text), len(text) + len(piece)))
        text += piece
    structure = special_ids(subject.tokenizer)
    return Row(
        text=text,
        ids=tuple(ids),
        tokens=tuple(tokens),
        offsets=tuple(offsets),
        segments=(0,) * len(ids),
        special=tuple(i in structure for i in ids),
        types=tuple(types),
        mask=tuple(mask),
    )


def _pieces(tokenizer: Any, ids: Sequence[int]) -> tuple[list[str], list[tuple[bool, str]]]:
    """The tokens, and for each whether it is glued to what stands before it and how it reads."""
    if tokenizer is None:
        names = [f"#{i}" for i in ids]
        return names, [(False, name) for name in names]
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    spaced = any(token[:1] in "Ġ▁" for token in tokenizer.get_vocab() if token)
    pieces = []
    for i, token in zip(ids, tokens, strict=True):
        if token.startswith("##"):
            pieces.append((True, token[2:]))
        else:
            pieces.append((spaced and token[:1] not in "Ġ▁", tokenizer.decode([i]).strip() or token))
    return tokens, pieces
