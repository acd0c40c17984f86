"""Tokens as people read them: without the marks of tokenizers, and bytes as the text that they are part of."""

import re
from collections.abc import Iterable

SPACE_MARKS = "Ġ▁"  # how byte-level and SentencePiece tokenizers write a leading space
CONTINUATION = "##"  # how WordPiece writes a token that continues a word
_BLANKS = {" ": "␣", "\n": "⏎", "\t": "⇥"}
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # how SentencePiece writes a byte


_ENTITY = re.compile(r"&?#\d{1,6};|&[A-Za-z]{2,8};")


def entities(text: str) -> list[tuple[int, int]]:
    """Where a text has entities of HTML, also without their first sign, as some data sets do.

    >>> entities("Rock &amp; roll isn#39;t")
    [(5, 10), (19, 23)]
    """
    return [match.span() for match in _ENTITY.finditer(text)] if ";" in text else []


def _byte_letters() -> dict[int, str]:
    """The letter that byte-level tokenizers write for each byte: printable ones stand for themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}


_LETTERS = _byte_letters()
_BYTES = {letter: byte for byte, letter in _LETTERS.items()}


def byte_letters(data: bytes) -> str:
    """Bytes as byte-level tokenizers write them.

    >>> byte_letters(b" a")
    'Ġa'
    """
    return "".join(map(_LETTERS.__getitem__, data))


def is_byte_level(tokens: Iterable[str]) -> bool:
    """Whether a byte-level tokenizer wrote these tokens, as its mark of a space tells."""
    return any("Ġ" in token for token in tokens)


def token_text(token: str, byte_level: bool = False) -> str:
    """A token as people read it; a byte that is no text is written by its number, a blank as a sign."""
    if byte_level and all(letter in _BYTES for letter in token):
        text = _decode(bytes(_BYTES[letter] for letter in token))
    else:
        text = _BYTE.sub(r"⟨0x\1⟩", token.removeprefix(CONTINUATION)).replace("▁", " ").lstrip("Ġ")
    return text.strip() or "".join(_BLANKS.get(letter, letter) for letter in text) or token


def possible_tokens(text: str, byte_level: bool = False) -> list[str]:
    """The tokens that people may mean by a text: the one that begins a word comes first."""
    if not byte_level:
        return [f"▁{text}", f" {text}", text, f"{CONTINUATION}{text}"]
    letters = byte_letters(text.encode("utf-8", "replace"))
    return [f"Ġ{letters}", letters, text]


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        rest = data[error.start + 1 :]
        return f"{data[: error.start].decode('utf-8')}⟨0x{data[error.start]:02X}⟩{_decode(rest)}"
