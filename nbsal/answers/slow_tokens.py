"""The place of each token in a text for tokenizers that do not tell, such as those of Marian and M2M100."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from nbsal.model.text.tokens import Span
from nbsal.support.errors import InputError

SPACE = "▁"  # how SentencePiece writes a space


def encode(tokenizer: Any, text: str) -> tuple[list[int], list[Span]]:
    """The tokens of a text, special ones included, and the characters of each; none for a special token."""
    pieces = tokenizer.tokenize(text)
    ids, inner = list(tokenizer(text)["input_ids"]), tokenizer.convert_tokens_to_ids(pieces)
    first = next((i for i in range(len(ids) - len(inner) + 1) if ids[i : i + len(inner)] == inner), None)
    spans = None if first is None else place(pieces, text)
    if first is None or spans is None:
        message = (
            f"{type(tokenizer).__name__} changes {text!r:.60}, so that its tokens have no places in it. Pass a fast "
            "tokenizer, or the text as the tokenizer would have it."
        )
        raise InputError(message, argument="asked", value=text)
    end = len(text)
    return ids, [(0, 0)] * first + spans + [(end, end)] * (len(ids) - first - len(inner))


def place(pieces: Sequence[str], text: str) -> list[Span] | None:
    """The characters of a text that each piece stands for; None if the pieces are not those of the text.

    >>> place(["▁A", "▁jo", "y"], "A  joy")
    [(0, 1), (3, 5), (5, 6)]
    """
    characters = list(_visible(text))
    spans: list[Span] = []
    number = 0  # of the next visible character
    for piece in pieces:
        surface = [c for c, _ in _visible(piece.replace(SPACE, " "))]
        covered = characters[number : number + len(surface)]
        if [c for c, _ in covered] != surface:
            return None
        before = spans[-1][1] if spans else 0
        next_place = characters[number][1] if number < len(characters) else len(text)
        # A piece that is only a space covers what stands between its neighbours.
        spans.append((covered[0][1], covered[-1][1] + 1) if covered else (before, max(before, next_place)))
        number += len(surface)
    return spans if number == len(characters) else None


def _visible(text: str) -> Iterator[tuple[str, int]]:
    """The characters that are not white space as tokenizers normalise them, each with its place."""
    for position, character in enumerate(text):
        for part in unicodedata.normalize("NFKC", character):
            if not part.isspace():
                yield part, position
