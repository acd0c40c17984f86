"""Which of a server's tokens are those of the reply: checked against the ids and the text that it was sent."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nbsal.model.served.forms import Token
from nbsal.support.errors import ServerError

LONGEST = 24  # characters of a first token, which some servers do not name
STRUCTURE = re.compile(r"<[^\s<>]{1,40}>|\[[A-Z_]{1,20}\]")  # "<s>", "<|im_start|>", "[UNK]"
UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # of a token that is part of a character


@dataclass(frozen=True)
class Expected:
    """What a server must return: the texts of the reply's tokens or words, and the prompt's text.

    With `ids`, those of prompt and reply, its tokens are ours, one by one. `prompt` is None where the server renders
    it, or returns the reply alone. `special` are tokens that a server may leave out of texts.
    """

    pieces: tuple[str, ...]
    prompt: str | None
    ids: tuple[int, ...] = ()
    special: tuple[str, ...] = ()

    def plain(self, text: str) -> str:
        """A text without white space and special tokens, which servers write in different ways."""
        for token in self.special:
            text = text.replace(token, "")
        return "".join(text.split())


def reply_tokens(tokens: Sequence[Token], generated: int, expected: Expected) -> list[list[Token]]:
    """The server's tokens of each piece of the reply; up to `generated` tokens may follow the reply."""
    for extra in range(generated, -1, -1):
        read = tokens[: len(tokens) - extra]
        pieces = _one_by_one(read, expected) if expected.ids else _by_text(read, expected)
        if pieces is not None:
            if any(token.logprob is None for piece in pieces for token in piece):
                raise ServerError("The server gives no log-probability of the first token. Ask with a longer prompt.")
            return pieces
    got, sent = len(tokens), len(expected.ids)
    counts = f" ({got} tokens for {sent})" if sent else f" ({got} tokens)"
    problem = f"The server's tokens are not those of the text that it was sent{counts}."
    if not sent and any(not token.text for token in tokens[1:]):
        raise ServerError(
            f"{problem} Some of them have no text, as llama.cpp writes words that the model does not know. Pass the "
            "model's tokenizer as tokenizer=..., or a reply of words that it knows."
        )
    raise ServerError(f"{problem} If it has another tokenizer, pass that as tokenizer=..., or none.")


def _one_by_one(tokens: Sequence[Token], expected: Expected) -> list[list[Token]] | None:
    count = len(expected.pieces)
    pairs = zip(tokens[len(tokens) - count :], expected.pieces, strict=False)
    texts = all(_is_same(expected.plain(token.text), expected.plain(piece)) for token, piece in pairs)
    if all(token.id is not None for token in tokens[1:]):
        same = len(tokens) == len(expected.ids)
        same &= all(token.id in (None, index) for token, index in zip(tokens, expected.ids, strict=False))
        # A server writes the ids that it is made to write; its texts show whether they are those of our tokenizer.
        same &= texts or expected.prompt is not None
    else:  # by their texts; a first token of the template may be missing
        same = len(expected.ids) - len(tokens) in (0, 1) and len(tokens) > count and texts
        same = same and _joins(tokens[: len(tokens) - count], expected.plain(expected.prompt or ""), expected)
    return [[token] for token in tokens[len(tokens) - count :]] if same else None


def _is_same(text: str, piece: str) -> bool:
    return text == piece or UNFINISHED in text + piece or not piece


def _joins(tokens: Sequence[Token], text: str, expected: Expected) -> bool:
    """Whether tokens make up a text; those that stand for structure or for anything unknown may be none of it."""
    parts = [""]
    for number, token in enumerate(tokens):
        # Some servers write an unknown word as nothing; the first token is nothing to those that do not name it.
        if STRUCTURE.fullmatch(token.text.strip()) or (number and not token.text):
            parts.append("")
        else:
            parts[-1] += expected.plain(token.text)
    if UNFINISHED in text.join(parts):
        return True
    end = len(text)
    for part in reversed(parts):
        at = text.rfind(part, 0, end)
        if at < 0 or (part is parts[-1] and at + len(part) != end):
            return False
        end = at
    return end <= LONGEST or parts[0] == ""


def _by_text(tokens: Sequence[Token], expected: Expected) -> list[list[Token]] | None:
    """The tokens of each word: the one in which its first character is, or the first of the reply's."""
    sizes = [len(expected.plain(piece)) for piece in expected.pieces]
    reply, texts = "".join(map(expected.plain, expected.pieces)), [expected.plain(token.text) for token in tokens]
    first, size = len(tokens), 0
    while first and size < len(reply):
        first -= 1
        size += len(texts[first])
    joined = "".join(texts[first:])
    before = joined[: len(joined) - len(reply)]
    if not joined.endswith(reply) or size < len(reply):
        return None
    if expected.prompt is not None:
        prompt = expected.plain(expected.prompt)
        if not prompt.endswith(before) or not _joins(tokens[:first], prompt[: len(prompt) - len(before)], expected):
            return None
    pieces: list[list[Token]] = [[] for _ in sizes]
    place, at, end = -len(before), 0, sizes[0]
    for token, text in zip(tokens[first:], texts[first:], strict=True):
        while at + 1 < len(sizes) and place >= end:
            at += 1
            end += sizes[at]
        pieces[at].append(token)
        place += len(text)
    return pieces
