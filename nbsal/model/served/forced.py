"""Replies that a server is made to write by a grammar of token ids: which ids, asked of its own tokenizer.

The grammar of llama.cpp takes whole characters: a token that holds a part of one cannot be forced.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from nbsal.model.served.alignment import UNFINISHED
from nbsal.model.served.cache import checksum
from nbsal.model.served.calls import Call
from nbsal.model.served.detection import suited
from nbsal.model.served.endpoint import Endpoint
from nbsal.model.served.forms import BROKEN, LARGEST, ROOM, TOKENIZE
from nbsal.model.served.http import ask
from nbsal.support.errors import InputError, ServerError

BEFORE = "\n"  # what a reply is tokenized after: some tokenizers begin a text with a space
ENTRY = 64  # bytes of a token with its piece, beside the text


def tokenizing(endpoint: Endpoint, url: str, text: str) -> Call:
    """The call for the ids of a reply."""
    body = {"model": endpoint.model, "content": text if text.startswith(BEFORE) else BEFORE + text, "with_pieces": True}
    most = ROOM + ENTRY * len(text.encode())
    send = partial(ask, endpoint, url, body, most, partial(_read_ids, text))
    return Call(checksum([endpoint.address, TOKENIZE, body]), partial(suited, send))


def _read_ids(text: str, reply: Any) -> list[int]:
    """The ids of the last tokens, which make up the text."""
    try:
        ids = [int(entry["id"]) for entry in reply["tokens"]]
        pieces = [_bytes_of(entry["piece"]) for entry in reply["tokens"]]
    except BROKEN:
        raise ServerError("The server's /tokenize returned no tokens.") from None
    left = len(b"".join(pieces)) - len(text.encode())
    while left > 0 and pieces:
        left -= len(pieces.pop(0))
    if left or b"".join(pieces) != text.encode() or not all(0 <= index < LARGEST for index in ids):
        raise ServerError("The server's /tokenize returned the tokens of another text than the reply.")
    check_forceable([piece.decode("utf-8", "replace") for piece in pieces], text)
    return ids[len(ids) - len(pieces) :]


def _bytes_of(piece: Any) -> bytes:
    """A piece is a list of bytes where it is no text by itself."""
    return piece.encode() if isinstance(piece, str) else bytes(piece)


def check_forceable(pieces: Sequence[str], reply: str, special: Sequence[str] = ()) -> None:
    """Refuse a reply with a character that takes several tokens, or with a special token."""
    if any(UNFINISHED in piece or piece in special for piece in pieces):
        message = (
            "The reply has a character of several tokens, such as an emoji, or a special token. The server of "
            "llama.cpp scores neither. Pass a reply without it, or number='agreement'."
        )
        raise InputError(message, argument="reply", value=reply)
