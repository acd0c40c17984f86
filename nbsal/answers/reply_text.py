"""The text of a reply's tokens, by decoding alone: decoding and encoding again may give other tokens."""

from collections.abc import Callable, Sequence
from typing import Any

from nbsal.model.text.tokens import Span

WINDOW = 6  # tokens that are decoded again before each token: what a decoder looks back at
UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # what a decoder writes for part of a character


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of some tokens, special ones included, as they are."""
    settings = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    return str(tokenizer.decode(list(ids), **settings))


def spans_of(decode_ids: Callable[[Sequence[int]], str], ids: Sequence[int]) -> tuple[str, list[Span]]:
    """The text of some tokens, and the characters of each; tokens that are part of one character share it.

    >>> spans_of(lambda ids: "".join(map(chr, ids)), [72, 105])
    ('Hi', [(0, 1), (1, 2)])
    """
    text = decode_ids(ids)
    ends = _ends_by_window(decode_ids, ids, text) or _ends_by_prefix(decode_ids, ids, text)
    starts = [0, *ends[:-1]]
    return text, [
        (start, end) if end > start else _shared(start, text) for start, end in zip(starts, ends, strict=True)
    ]


def _shared(start: int, text: str) -> Span:
    return min(start, max(0, len(text) - 1)), min(start + 1, len(text))


def _ends_by_window(decode_ids: Callable[[Sequence[int]], str], ids: Sequence[int], text: str) -> list[int] | None:
    """Where each token ends, from decoding a few tokens before it; None unless they make up the text."""
    ends: list[int] = []
    start, size = 0, 0  # the first token of the window, and the characters before its first token
    before = ""
    for number in range(len(ids)):
        window = decode_ids(ids[start : number + 1])
        complete = not window.endswith(UNFINISHED)
        end = size + len(window) if complete else size + len(before)
        if complete:
            if text[size:end] != window:
                return None
            before = window
        ends.append(end)
        if complete and number - start >= WINDOW:
            shorter = decode_ids(ids[number : number + 1])
            if window.endswith(shorter) and shorter:  # from here on, this token alone is what is looked back at
                start, size, before = number, end - len(shorter), shorter
    return ends if ends and ends[-1] == len(text) else None


def _ends_by_prefix(decode_ids: Callable[[Sequence[int]], str], ids: Sequence[int], text: str) -> list[int]:
    """Where each token ends: as far as the text of all tokens up to it agrees with the whole text."""
    ends: list[int] = []
    for number in range(1, len(ids) + 1):
        prefix = decode_ids(ids[:number])
        pairs = enumerate(zip(prefix, text, strict=False))
        agreed = next((i for i, (one, other) in pairs if one != other), min(len(prefix), len(text)))
        ends.append(max(agreed, ends[-1] if ends else 0))
    if ends:
        ends[-1] = len(text)
    return ends
