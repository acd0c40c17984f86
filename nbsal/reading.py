"""Reading: texts through a tokenizer into Encoded, with offsets into the text as typed."""

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nbsal.encoding import Encoded, Row, Span, Text, tight, validated
from nbsal.errors import InputError, ModelError

if TYPE_CHECKING:
    from nbsal.subject import Subject

# Truncation is state of a fast tokenizer, and several subjects may share one.
_TOKENIZING = threading.RLock()


def encode(subject: "Subject", text: Any, first: int = 0) -> Encoded:
    """One text or many as rows, each with a token that may be scored; `first` numbers them in sentences."""
    tokenizer = _fast(subject)
    return Encoded([_row(subject, tokenizer, one) for one in validated(text, first)], pad_id(subject))


def whole(subject: "Subject", text: Text) -> tuple[Row, int, int]:
    """A text as one row of any length, and how many tokens the tokenizer itself put before and after it."""
    coded = _call(_fast(subject), (text,) if isinstance(text, str) else text)
    added = coded["special_tokens_mask"]
    before = added.index(0) if 0 in added else len(added)
    after = added[::-1].index(0) if 0 in added else 0
    return _assemble(subject.tokenizer, text, coded, 0), before, after


def encode_ids(subject: "Subject", input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Encoded:
    """Rows for token ids made elsewhere; their text is spelt from the tokens."""
    ids = _rectangle("input_ids", input_ids)
    masks = np.ones_like(ids) if attention_mask is None else _rectangle("attention_mask", attention_mask)
    types = np.zeros_like(ids) if token_type_ids is None else _rectangle("token_type_ids", token_type_ids)
    if not ids.shape == masks.shape == types.shape:
        raise InputError("input_ids, attention_mask and token_type_ids must have the same shape.")
    _within("input_ids", ids, subject.model.config.vocab_size)
    _within("attention_mask", masks, 2)
    _within("token_type_ids", types, max(2, getattr(subject.model.config, "type_vocab_size", 0) or 0))
    if ids.shape[1] > subject.longest:
        raise InputError(f"input_ids has {ids.shape[1]} tokens, the model reads {subject.longest} at most: shorten it.")
    pad = pad_id(subject)
    given = [_unpadded(pad, *map(np.ndarray.tolist, parts)) for parts in zip(ids, masks, types, strict=True)]
    return Encoded([_scorable(_spelt(subject, *parts)) for parts in given], pad)


def pad_id(subject: "Subject") -> int:
    """The id that fills up shorter rows; pooling decoders look for their own in the ids."""
    candidates = (subject.model.config.pad_token_id, getattr(subject.tokenizer, "pad_token_id", None), 0)
    return next(int(candidate) for candidate in candidates if candidate is not None)


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


def _call(tokenizer: Any, parts: Sequence[str], **cut: Any) -> dict[str, Any]:
    wanted = {"return_offsets_mapping": True, "return_special_tokens_mask": True, "return_token_type_ids": True}
    with _TOKENIZING:
        try:
            coded = tokenizer(*parts, verbose=False, **wanted, **cut)
        except Exception as error:  # the tokenizers library raises plain Exceptions of its own
            raise InputError(f"The tokenizer cannot read this text: {error}.") from error
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


def _rectangle(name: str, values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Ids as rows, whether they came as a list, an array or a tensor of one or two axes."""
    try:
        found = np.asarray(values.tolist() if hasattr(values, "tolist") else values)
    except ValueError:
        raise InputError(f"{name} holds sequences of different lengths: pad them, or give one at a time.") from None
    if not found.size:
        raise InputError(f"{name} holds an empty sequence: there is nothing to explain.")
    if found.dtype.kind not in "iu" or found.ndim not in (1, 2):
        raise InputError(f"{name} must hold whole numbers, one sequence or a batch of sequences.")
    return np.atleast_2d(found).astype(np.int64)


def _within(name: str, values: np.ndarray[Any, np.dtype[np.int64]], size: int) -> None:
    if values.min() < 0 or values.max() >= size:
        raise InputError(f"{name} holds a number outside 0 to {size - 1}.")


def _unpadded(pad: int, ids: list[int], mask: list[int], types: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Without the padding at the end, which is hidden and no part of the text; the first token stays in any case."""
    size = len(ids)
    while size > 1 and ids[size - 1] == pad and not mask[size - 1]:
        size -= 1
    return ids[:size], mask[:size], types[:size]


def _spelt(subject: "Subject", ids: list[int], mask: list[int], types: list[int]) -> Row:
    """Segment ids of a pair tell its members apart; the text of each is spelt from its tokens."""
    tokens, pieces = _pieces(subject.tokenizer, ids)
    segments = types if set(types) == {0, 1} else [0] * len(ids)
    texts, offsets = [""] * (max(segments) + 1), list[Span]()
    for segment, (glued, piece) in zip(segments, pieces, strict=True):
        texts[segment] += "" if glued or not texts[segment] else " "
        offsets.append((len(texts[segment]), len(texts[segment]) + len(piece)))
        texts[segment] += piece
    structure = special_ids(subject.tokenizer)
    return Row(
        text=texts[0] if len(texts) == 1 else (texts[0], texts[1]),
        ids=tuple(ids),
        tokens=tuple(tokens),
        offsets=tuple(offsets),
        segments=tuple(segments),
        special=tuple(i in structure for i in ids),
        types=tuple(types),
        mask=tuple(mask),
    )


def _pieces(tokenizer: Any, ids: Sequence[int]) -> tuple[list[str], list[tuple[bool, str]]]:
    """The tokens, and for each whether it is glued to what stands before it and how it reads."""
    tokens = [token_name(tokenizer, i) for i in ids]
    if tokenizer is None:
        return tokens, [(False, name) for name in tokens]
    spaced = _marks_spaces(tokenizer)
    pieces = []
    for i, token in zip(ids, tokens, strict=True):
        if token.startswith("##"):
            pieces.append((True, token[2:]))
        else:
            pieces.append((spaced and token[:1] not in "Ġ▁", tokenizer.decode([i]).strip() or token))
    return tokens, pieces


def token_name(tokenizer: Any, index: int) -> str:
    """How a token is called; an id that no tokenizer knows is called by its number."""
    name = None if tokenizer is None else tokenizer.convert_ids_to_tokens(index)
    return f"#{index}" if name is None else str(name)


@lru_cache(maxsize=64)
def _marks_spaces(tokenizer: Any) -> bool:
    """Whether a token says that a space stands before it (byte-level and sentence pieces), or that none does."""
    return any(token[:1] in "Ġ▁" for token in tokenizer.get_vocab() if token)
