"""The head study exactly as the authors of Mask-LRP ran it, bugs included.

Words are assembled from token strings and paired with parsed words in order, without comparing them, so one extra word
shifts all later pairs. A hit is any word with the same text as the head, wherever it is in the sentence. Special tokens
and the attending position itself may have the largest attention. RoBERTa's tokens keep their space marker, so they
hardly ever equal a parsed word.
"""

import string
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nbsal.heads.parses import ROOT, Link, Parse
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row

SPACE = "Ġ"


@dataclass(frozen=True)
class AssembledWord:
    """A word assembled from tokens; its text is empty for punctuation and special tokens."""

    positions: tuple[int, ...]
    text: str


def links(subject: Subject, row: Row, parse: Parse) -> Iterator[Link]:
    """A link for every paired dependency, from the word's first token to all tokens of words that equal its head."""
    words = _words_by_space(row) if subject.model.config.model_type == "gpt2" else _words_by_prefix(row)
    usable = [word for word in words[:-1] if len(word.text) > 1 and not word.text.isdigit()]
    parsed = [number for number, word in enumerate(parse.words) if _is_paired(parse.text[word.start : word.end])]
    for number, word in zip(parsed, usable, strict=False):
        dependent = parse.words[number]
        if dependent.head == ROOT:
            continue
        head = parse.words[dependent.head]
        head_text = parse.text[head.start : head.end].lower()
        goal = tuple(i for candidate in words if candidate.text == head_text for i in candidate.positions)
        yield Link(dependent.relation, word.positions[0], goal, dependent.head - number)


def without_separators(subject: Subject, row: Row) -> Row:
    """The text as the program passed it to the model: for classifiers, separators are masked."""
    if subject.task != "sequence":
        return row
    separator = subject.tokenizer.sep_token_id
    return replace(row, mask=tuple(int(m and i != separator) for m, i in zip(row.mask, row.ids, strict=True)))


def _words_by_prefix(row: Row) -> list[AssembledWord]:
    """Words of a tokenizer that marks continued words with ##."""
    words: list[AssembledWord] = []
    for i, token in enumerate(row.tokens):
        if token.startswith("##") and words:
            words[-1] = AssembledWord((*words[-1].positions, i), words[-1].text + token[2:])
        else:
            words.append(AssembledWord((i,), "" if row.special[i] or _is_punctuation(token) else token))
    return words


def _words_by_space(row: Row) -> list[AssembledWord]:
    """Words of a tokenizer that marks spaces; a capital letter also begins a word."""
    words: list[AssembledWord] = []
    for i, token in enumerate(row.tokens):
        begins = token.startswith(SPACE) or token[:1].isupper()
        if words and not begins and not row.special[i] and not _is_punctuation(token):
            words[-1] = AssembledWord((*words[-1].positions, i), words[-1].text + token)
        else:
            text = token if i == len(row) - 1 else token.removeprefix(SPACE)
            words.append(AssembledWord((i,), "" if row.special[i] or _is_punctuation(text) else text))
    return words


def _is_punctuation(token: str) -> bool:
    return bool(token) and all(character in string.punctuation for character in token)


def _is_paired(word: str) -> bool:
    has_punctuation = any(character in string.punctuation for character in word)
    return len(word) > 1 and not has_punctuation and not word[0].isdigit() and not word[-1].isdigit()
