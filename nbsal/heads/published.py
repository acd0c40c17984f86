"""The head study as the authors of Mask-LRP ran it: words from token strings, paired in order, compared by text.

Pairing goes once from left to right and never looks at the strings it pairs, so one word too many shifts all that
follow; a hit is a string that equals the head's, wherever it stands; special tokens and a position itself may be what
a head looks at. RoBERTa's pieces keep their space mark, so that hardly any ever equals a parsed word.
"""

import string
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nbsal.heads.parses import ROOT, Link, Parse
from nbsal.model.subject import Subject
from nbsal.model.tokens import Row

SPACE = "Ġ"


@dataclass(frozen=True)
class Assembled:
    """A word put together from pieces; empty where it is punctuation or a special token."""

    positions: tuple[int, ...]
    text: str


def links(subject: Subject, row: Row, parse: Parse) -> Iterator[Link]:
    """Every paired word that depends on another: its first token, and all tokens whose word reads like its head."""
    words = _from_spaced(row) if subject.model.config.model_type == "gpt2" else _from_marked(row)
    usable = [word for word in words[:-1] if len(word.text) > 1 and not word.text.isdigit()]
    parsed = [number for number, word in enumerate(parse.words) if _kept(parse.text[word.start : word.end])]
    for number, word in zip(parsed, usable, strict=False):
        dependent = parse.words[number]
        if dependent.head == ROOT:
            continue
        head = parse.words[dependent.head]
        wanted = parse.text[head.start : head.end].lower()
        goal = tuple(i for one in words if one.text == wanted for i in one.positions)
        yield Link(dependent.relation, word.positions[0], goal, dependent.head - number)


def shown(subject: Subject, row: Row) -> Row:
    """The text as the model was given it: classifiers do not see separators."""
    if subject.task != "sequence":
        return row
    separator = subject.tokenizer.sep_token_id
    return replace(row, mask=tuple(int(seen and i != separator) for seen, i in zip(row.mask, row.ids, strict=True)))


def _from_marked(row: Row) -> list[Assembled]:
    """Words from pieces that say with ## that they go on."""
    words: list[Assembled] = []
    for i, token in enumerate(row.tokens):
        if token.startswith("##") and words:
            words[-1] = Assembled((*words[-1].positions, i), words[-1].text + token[2:])
        else:
            words.append(Assembled((i,), "" if row.special[i] or _is_mark(token) else token))
    return words


def _from_spaced(row: Row) -> list[Assembled]:
    """Words from pieces that say with a space mark that they begin; a capital letter begins one too."""
    words: list[Assembled] = []
    for i, token in enumerate(row.tokens):
        begins = token.startswith(SPACE) or token[:1].isupper()
        if words and not begins and not row.special[i] and not _is_mark(token):
            words[-1] = Assembled((*words[-1].positions, i), words[-1].text + token)
        else:
            bare = token if i == len(row) - 1 else token.removeprefix(SPACE)
            words.append(Assembled((i,), "" if row.special[i] or _is_mark(bare) else bare))
    return words


def _is_mark(token: str) -> bool:
    return bool(token) and all(character in string.punctuation for character in token)


def _kept(word: str) -> bool:
    """Whether the pairing looks at a parsed word at all."""
    marked = any(character in string.punctuation for character in word)
    return len(word) > 1 and not marked and not word[0].isdigit() and not word[-1].isdigit()
