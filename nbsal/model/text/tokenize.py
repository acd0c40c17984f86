"""From texts or token ids to the rows a model reads, with offsets into the text as typed."""

import os
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.model.loading.usage import PLAIN, Preprocessing
from nbsal.model.running import architecture
from nbsal.model.text.token_text import is_byte_level, possible_tokens, token_text
from nbsal.model.text.tokens import Encoded, Row, Span, strip_span
from nbsal.support.errors import InputError, ModelError
from nbsal.support.validation import Text, check_texts

# Truncation is state of a fast tokenizer, and several subjects may share one.
_TOKENIZER_LOCK = threading.RLock()
_NUMBER = re.compile(r"#(\d+)$")  # of a token, at the end of its name


def _renew_lock() -> None:
    """Replace, in a forked process, a lock that a thread of its parent may hold."""
    global _TOKENIZER_LOCK
    _TOKENIZER_LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class TextEncoder:
    """A model's tokenizer together with the limits of the model: its length, its vocabulary, its padding id."""

    def __init__(self, model: Any, tokenizer: Any, name: str, task: str, usage: Preprocessing = PLAIN) -> None:
        self.config = model.config
        self.tokenizer = tokenizer
        self.name = name
        self.task = task
        self.prompt = usage.prompt
        self.zero_shot = usage.zero_shot
        limit = architecture.max_length(model, tokenizer)
        self.max_length = limit if usage.longest is None else min(limit, usage.longest)

    @property
    def pad_id(self) -> int:
        """The id that fills up shorter rows. Decoders that pool look for their own padding id in the ids."""
        own = getattr(self.config, "pad_token_id", None)
        return int((getattr(self.tokenizer, "pad_token_id", None) or 0) if own is None else own)

    def encode(self, text: Any, first: int = 0) -> Encoded:
        """Encode one text or a list of texts; `first` is the number of the first text in error messages."""
        self._check_task()
        self._check_tokenizer()
        return Encoded(self._encode_all(check_texts(text, first)), self.pad_id)

    def encode_whole(self, text: Text) -> tuple[Row, int, int]:
        """A text as one row of any length, and the number of special tokens the tokenizer put before and after it."""
        self._check_tokenizer()
        (output,) = _tokenize(self.tokenizer, [self._with_prompt(text)])
        added = output["special_tokens_mask"]
        before = added.index(0) if 0 in added else len(added)
        after = added[::-1].index(0) if 0 in added else 0
        row = _text_row(text, output, 0, special_ids(self.tokenizer), self.prompt)
        while self.prompt and before < len(row) and row.special[before]:
            before += 1
        return row, before, after

    def encode_ids(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Encoded:
        """Encode token ids that were made elsewhere; their text is put together from the tokens."""
        self._check_task()
        ids = _id_matrix("input_ids", input_ids)
        masks = np.ones_like(ids) if attention_mask is None else _id_matrix("attention_mask", attention_mask)
        types = np.zeros_like(ids) if token_type_ids is None else _id_matrix("token_type_ids", token_type_ids)
        for name, values in (("attention_mask", masks), ("token_type_ids", types)):
            if values.shape != ids.shape:
                message = f"{name} has the shape {values.shape}, input_ids has {ids.shape}. They must be the same."
                raise InputError(message, argument=name, value=values)
        _check_range("input_ids", ids, self.config.vocab_size)
        _check_range("attention_mask", masks, 2)
        _check_range("token_type_ids", types, max(2, getattr(self.config, "type_vocab_size", 0) or 0))
        if ids.shape[1] > self.max_length:
            message = f"input_ids has {ids.shape[1]} tokens, but the model reads at most {self.max_length}. Shorten it."
            raise InputError(message, argument="input_ids", value=input_ids)
        rows = [
            _id_row(self.tokenizer, *_without_padding(self.pad_id, *map(np.ndarray.tolist, columns)))
            for columns in zip(ids, masks, types, strict=True)
        ]
        return Encoded([_require_content(row) for row in rows], self.pad_id)

    def _encode_all(self, texts: Sequence[Text]) -> list[Row]:
        """Each text as one row, truncated to the model's length."""
        if self.zero_shot is not None:  # the hypothesis is that of another label where the target is another
            hypothesis = self.zero_shot.hypothesis(0)
            texts = [(text, hypothesis) if isinstance(text, str) else text for text in texts]
        parts, structure = [self._with_prompt(text) for text in texts], special_ids(self.tokenizer)
        rows = zip(texts, parts, _tokenize(self.tokenizer, parts), strict=True)
        return [_require_content(self._truncated_row(*row, structure)) for row in rows]

    def _truncated_row(self, text: Text, parts: Sequence[str], whole: dict[str, Any], structure: frozenset[int]) -> Row:
        """A text as a row, from the tokens of its parts."""
        output, size = whole, len(whole["input_ids"])
        if size > self.max_length:
            # Of a question and its context only the context may be truncated, and never a hypothesis.
            truncation = "only_second" if self.task == "span" and len(parts) == 2 else "longest_first"
            truncation = truncation if self.zero_shot is None else "only_first"
            shortened = {"only_first": 0, "only_second": 1}.get(truncation)
            fixed = sum(part != shortened for part in whole["sequence_ids"])
            if shortened is not None and fixed >= self.max_length:
                part = "question" if shortened else "hypothesis"
                message = f"The {part} leaves no room for the text: it has {fixed} tokens, special ones included, but "
                message += f"the model reads at most {self.max_length}. Shorten it."
                raise InputError(message, argument="text", value=text)
            (output,) = _tokenize(self.tokenizer, [parts], truncation=truncation, max_length=self.max_length)
        return _text_row(text, output, size - len(output["input_ids"]), structure, self.prompt)

    def _with_prompt(self, text: Text) -> tuple[str, ...]:
        """The parts of a text as the model reads them."""
        first, *rest = (text,) if isinstance(text, str) else text
        return self.prompt + first, *rest

    def _check_task(self) -> None:
        """Refuse texts without a reply for a model that explains nothing else."""
        if self.task == "reply":
            message = f"{self.name} writes replies. Explain them with nbsal.answer(subject, text), not by an Explainer."
            raise ModelError(message, part="task")

    def _check_tokenizer(self) -> None:
        if self.tokenizer is None:
            message = f"{self.name} has no tokenizer. Pass nbsal.load(..., tokenizer=...) or explain token ids."
            raise InputError(message, argument="tokenizer")
        if not self.tokenizer.is_fast:
            message = f"{type(self.tokenizer).__name__} gives no character offsets. Pass a fast tokenizer."
            raise InputError(message, argument="tokenizer", value=self.tokenizer)


def check_tokenizer(model: Any, passed: Any, default: Any) -> None:
    """Refuse a tokenizer whose ids differ from the model's; `default` is the one saved beside the model, if any."""
    tokenizer = passed or default
    if tokenizer is None:
        return
    size = model.config.vocab_size
    if len(tokenizer) > size:
        raise ModelError(
            f"The tokenizer has {len(tokenizer)} tokens, the model {size}: it belongs to another model.",
            part="tokenizer",
        )
    if passed is not None and default is not None and passed.get_vocab() != default.get_vocab():
        raise ModelError(
            "The tokenizer's ids differ from those of the model's own tokenizer: it belongs to another model.",
            part="tokenizer",
        )


def special_ids(tokenizer: Any) -> frozenset[int]:
    """Ids that stand for structure, not for text. The unknown token is text.

    Tokens such as <|im_end|> have no role that the tokenizer names, but are marked as special.
    """
    if tokenizer is None:
        return frozenset()
    added = getattr(tokenizer, "added_tokens_decoder", {})
    marked = {index for index, token in added.items() if token.special}
    return (frozenset(tokenizer.all_special_ids) | marked) - {tokenizer.unk_token_id}


def token_name(tokenizer: Any, index: int) -> str:
    """A token as people read it, with its number where its text means another token, or none that is known."""
    token = _vocabulary_name(tokenizer, index)
    text = token_text(token, tokenizer is not None and _is_byte_level(tokenizer))
    return text if text == f"#{index}" or named_token(tokenizer, text) == index else f"{text} #{index}"


def named_token(tokenizer: Any, name: str) -> int | None:
    """The id of a token, from what `token_name` calls it or what its vocabulary does."""
    unknown = tokenizer.unk_token_id
    for token in possible_tokens(name, _is_byte_level(tokenizer)):
        index = tokenizer.convert_tokens_to_ids(token)
        if index is not None and (index != unknown or token == tokenizer.unk_token):
            return int(index)
    number = _NUMBER.search(name)
    return int(number[1]) if number and int(number[1]) < len(tokenizer) else None


def _vocabulary_name(tokenizer: Any, index: int) -> str:
    """The token as its vocabulary spells it; an id that the tokenizer does not know is named by its number."""
    try:
        token = None if tokenizer is None else tokenizer.convert_ids_to_tokens(index)
    except IndexError:  # Marian's tokenizer has no answer for the padding of a vocabulary
        token = None
    return f"#{index}" if token is None else str(token)


def _require_content(row: Row) -> Row:
    if not row.content:
        message = f"{row.text!r:.80} has only special tokens, so there is nothing to score. Pass a text with words."
        raise InputError(message, argument="text", value=row.text)
    return row


def _tokenize(tokenizer: Any, texts: Sequence[Sequence[str]], **truncation: Any) -> list[dict[str, Any]]:
    """The tokens of texts of as many parts each, from one call, which costs half of one for each text."""
    # A tokenizer may make token types that it does not pass to its model, which then reads type 0 everywhere.
    types = "token_type_ids" in tokenizer.model_input_names
    outputs = {"return_offsets_mapping": True, "return_special_tokens_mask": True, "return_token_type_ids": types}
    with _TOKENIZER_LOCK:
        try:
            encoding = tokenizer(*map(list, zip(*texts, strict=True)), verbose=False, **outputs, **truncation)
        except Exception as error:  # the tokenizers library raises plain Exceptions
            if len(texts) > 1:  # find the text
                return [output for parts in texts for output in _tokenize(tokenizer, [parts], **truncation)]
            message = f"The tokenizer cannot read this text: {error}."
            raise InputError(message, argument="text", value=tuple(texts[0])) from error
    results = [{name: values[i] for name, values in encoding.items()} for i in range(len(texts))]
    for i, result in enumerate(results):
        result["sequence_ids"] = encoding.sequence_ids(i)
        result["tokens"] = encoding.tokens(i)
        result.setdefault("token_type_ids", [0] * len(result["input_ids"]))
    return results


def _text_row(text: Text, output: dict[str, Any], dropped: int, structure: frozenset[int], prompt: str = "") -> Row:
    """A row of what the tokenizer gave; a prompt's tokens and the ids of `structure` are special."""
    first, *rest = (text,) if isinstance(text, str) else text
    parts, ids, added = (prompt + first, *rest), output["input_ids"], output["special_tokens_mask"]
    segments = [part or 0 for part in output["sequence_ids"]]
    spans = [strip_span(parts[s], *span) for s, span in zip(segments, output["offset_mapping"], strict=True)]
    if prompt:
        spans, added = _after_prompt(len(prompt), segments, spans, added)
    return Row(
        text=text,
        ids=tuple(ids),
        tokens=tuple(output["tokens"]),
        offsets=tuple(spans),
        segments=tuple(segments),
        special=tuple(bool(mark) or i in structure for i, mark in zip(ids, added, strict=True)),
        types=tuple(output["token_type_ids"]),
        mask=(1,) * len(ids),
        dropped=dropped,
    )


def _after_prompt(
    size: int, segments: Sequence[int], spans: Sequence[Span], added: Sequence[int]
) -> tuple[list[Span], list[int]]:
    """Spans in the text after its prompt, and which tokens are not the text's, those of the prompt among them."""
    shifts = [0 if segment else size for segment in segments]
    moved = [(start - shift, end - shift) for shift, (start, end) in zip(shifts, spans, strict=True)]
    marks = [mark or end <= 0 < shift for mark, shift, (_, end) in zip(added, shifts, moved, strict=True)]
    return [(max(0, start), max(0, end)) for start, end in moved], marks


def _id_row(tokenizer: Any, ids: list[int], mask: list[int], types: list[int]) -> Row:
    """A row whose text is put together from its tokens; token types 0 and 1 tell the parts of a pair apart."""
    tokens, pieces = _token_pieces(tokenizer, ids)
    segments = types if set(types) == {0, 1} else [0] * len(ids)
    texts, offsets = [""] * (max(segments) + 1), list[Span]()
    for segment, (glued, piece) in zip(segments, pieces, strict=True):
        texts[segment] += "" if glued or not texts[segment] else " "
        offsets.append((len(texts[segment]), len(texts[segment]) + len(piece)))
        texts[segment] += piece
    structure = special_ids(tokenizer)
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


def _token_pieces(tokenizer: Any, ids: Sequence[int]) -> tuple[list[str], list[tuple[bool, str]]]:
    """The tokens, and for each the text it stands for and whether it continues the token before it."""
    tokens = [_vocabulary_name(tokenizer, i) for i in ids]
    if tokenizer is None:
        return tokens, [(False, name) for name in tokens]
    marks_spaces = _marks_spaces(tokenizer)
    pieces = []
    for i, token in zip(ids, tokens, strict=True):
        if token.startswith("##"):
            pieces.append((True, token[2:]))
        else:
            pieces.append((marks_spaces and token[:1] not in "Ġ▁", tokenizer.decode([i]).strip() or token))
    return tokens, pieces


@lru_cache(maxsize=64)
def _is_byte_level(tokenizer: Any) -> bool:
    return is_byte_level(tokenizer.get_vocab())


@lru_cache(maxsize=64)
def _marks_spaces(tokenizer: Any) -> bool:
    """Whether tokens carry a mark for the space before them (byte-level BPE, SentencePiece), as WordPiece does not."""
    return any(token[:1] in "Ġ▁" for token in tokenizer.get_vocab() if token)


def _id_matrix(name: str, values: Any) -> NDArray[np.int64]:
    """Ids as a [sequence, token] array, from a list, an array or a tensor of one or two axes."""
    try:
        matrix = np.asarray(values.tolist() if hasattr(values, "tolist") else values)
    except ValueError:
        message = f"{name} has sequences of different lengths. Pad them or pass them one at a time."
        raise InputError(message, argument=name, value=values) from None
    if not matrix.size:
        raise InputError(f"{name} is empty. Pass at least one token id.", argument=name, value=values)
    if matrix.dtype.kind not in "iu" or matrix.ndim not in (1, 2):
        message = f"{name} must hold whole numbers: one sequence or a batch of sequences."
        raise InputError(message, argument=name, value=values)
    return np.atleast_2d(matrix).astype(np.int64)


def _check_range(name: str, values: NDArray[np.int64], size: int) -> None:
    if values.min() < 0 or values.max() >= size:
        message = f"{name} has a number outside 0 to {size - 1}. Use the ids of this model's tokenizer."
        raise InputError(message, argument=name, value=values)


def _without_padding(
    pad: int, ids: list[int], mask: list[int], types: list[int]
) -> tuple[list[int], list[int], list[int]]:
    """The row without the masked padding at its end; the first token always stays."""
    size = len(ids)
    while size > 1 and ids[size - 1] == pad and not mask[size - 1]:
        size -= 1
    return ids[:size], mask[:size], types[:size]
