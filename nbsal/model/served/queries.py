"""What a served model is asked, in tokens of the subject's tokenizer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Query:
    """A prompt with a reply, as ids of the subject's tokenizer; with `messages`, those stand for the prompt."""

    ids: tuple[int, ...]
    reply_ids: tuple[int, ...]
    messages: tuple[Mapping[str, Any], ...] | None = None


@dataclass(frozen=True)
class Needs:
    """What explaining a reply asks: about which prompts.

    `unwritten` tells a reply that is still to be written from others, with up to `longest` tokens. With `agreement`,
    the reply is written again to each prompt, with the settings `again`; None: it is not known yet.
    """

    queries: Sequence[Query]
    unwritten: str = ""
    longest: int = 0
    agreement: bool = False
    again: Mapping[str, Any] | None = None


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of some tokens, as it is."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def pieces_of(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The text of each of some tokens."""
    return [decode(tokenizer, [index]) for index in ids]
