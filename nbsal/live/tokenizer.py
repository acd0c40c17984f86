"""What a tokenizer does with each character and each word, as tables for a live page.

The page has no Unicode tables of its own: browsers differ in their versions. The tokenizer itself is asked about every
character, so that the page gets the same ids; what depends on more than one character is refused by the page.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any
from unicodedata import normalize

from nbsal.support.errors import ModelError

CODES = (range(0xD800), range(0xE000, 0x40000), range(0xE0000, 0x110000))  # without surrogates
EMPTY = range(0x40000, 0xE0000)  # planes in which no version of Unicode has a character
HANGUL = range(0xAC00, 0xD7A4)  # syllables, which the page takes apart by the rule
MARKS = "\u302e\U0001d165"  # combining marks that are not removed, of two different combining classes
CHOICE = (
    "Live pages run the WordPiece tokenizers of uncased BERT models. Use to_html(interactive=True) for a page that "
    "shows the saved explanation."
)
SPLIT = 16  # parts of a list of characters, each of which is tested at once


def tokenizer_tables(tokenizer: Any) -> dict[str, Any]:
    """The tables of a WordPiece tokenizer; ModelError for another kind.

    `removed`, `spaces`, `separate` and `moving` are ranges of characters: [first, count, ...]. `separate` are words of
    their own, `moving` are combining marks that change places with others. `changed` is one string of the characters
    that become something else, `into` what they become.
    """
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    _check(tokenizer, content)
    vocabulary = content["model"]["vocab"]
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[word] for word in words] != list(range(len(words))):
        raise ModelError("The ids of the tokenizer have gaps, which a live page cannot read.", part="tokenizer")
    model = content["model"]
    return {
        "vocabulary": words,
        "prefix": model["continuing_subword_prefix"],
        "unknown": vocabulary[model["unk_token"]],
        "longest_word": model["max_input_chars_per_word"],
        "added": {token["content"]: token["id"] for token in content["added_tokens"]},
        "special": sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}),
        "first": tokenizer.cls_token_id,
        "separator": tokenizer.sep_token_id,
    } | _character_tables(json.dumps(content["normalizer"]), json.dumps(content["pre_tokenizer"]))


@lru_cache(maxsize=4)
def _character_tables(normalizer_json: str, pre_tokenizer_json: str) -> dict[str, Any]:
    normalizer, splitter = _parts(normalizer_json, pre_tokenizer_json)
    every = {code: normalizer.normalize_str(chr(code)) for code in chain(*CODES)}
    _check_plain(every, normalizer, splitter)
    outputs = {code: text for code, text in every.items() if code not in HANGUL}
    texts = {code: text.strip(" ") for code, text in outputs.items() if text.strip(" ")}
    # A character with spaces around it, such as an ideograph, is a word of its own, as punctuation is.
    isolated = {ord(text) for code, text in texts.items() if outputs[code] != text and len(text) == 1}
    written = sorted({character for text in texts.values() for character in text})
    changed = {code: text for code, text in texts.items() if text != chr(code)}

    def is_split(characters: Sequence[str]) -> bool:
        return len(splitter.pre_tokenize_str(f"a{'a'.join(characters)}a")) > 1

    def moves(characters: Sequence[str]) -> bool:
        """Whether a combining mark before or after one of these characters changes places with it."""
        alone = "a".join(every[ord(character)] for character in characters)
        return any(
            normalizer.normalize_str("a".join(f"{mark}{c}" for c in characters))
            != mark + alone.replace("a", f"a{mark}")
            or normalizer.normalize_str("a".join(f"{c}{mark}" for c in characters))
            != alone.replace("a", f"{mark}a") + mark
            for mark in MARKS
        )

    letters = [character for character in written if character != "a"]
    return {
        "removed": _ranges(code for code, text in outputs.items() if not text),
        "spaces": _ranges(code for code, text in outputs.items() if text and not text.strip(" ")),
        "separate": _ranges(isolated | set(_those(is_split, letters))),
        "moving": _ranges(_those(moves, letters)),
        "changed": "".join(map(chr, changed)),
        "into": list(changed.values()),
    }


def _those(holds: Callable[[Sequence[str]], bool], characters: Sequence[str]) -> Iterator[int]:
    """The characters of which something holds; it is tested of many at once, since it holds of few."""
    if not characters or not holds(characters):
        return
    if len(characters) == 1:
        yield ord(characters[0])
        return
    size = max(1, len(characters) // SPLIT)
    for start in range(0, len(characters), size):
        yield from _those(holds, characters[start : start + size])


def _parts(normalizer_json: str, pre_tokenizer_json: str) -> tuple[Any, Any]:
    from tokenizers import Tokenizer, models

    tokenizer = Tokenizer(models.WordPiece({"?": 0}, unk_token="?"))
    content = json.loads(tokenizer.to_str())
    content |= {"normalizer": json.loads(normalizer_json), "pre_tokenizer": json.loads(pre_tokenizer_json)}
    tokenizer = Tokenizer.from_str(json.dumps(content))
    return tokenizer.normalizer, tokenizer.pre_tokenizer


def _check_plain(outputs: Mapping[int, str], normalizer: Any, splitter: Any) -> None:
    """Refuse a tokenizer for which the page would need more than tables."""
    empty = "".join(map(chr, EMPTY))
    plain = normalizer.normalize_str(empty) == empty and len(splitter.pre_tokenize_str(empty)) == 1
    if not plain or any(normalize("NFD", chr(code)) != outputs[code] for code in HANGUL):
        raise ModelError(f"The tokenizer reads some characters otherwise than a page does. {CHOICE}", part="tokenizer")


def _ranges(codes: Iterable[int]) -> list[int]:
    """Ranges of sorted numbers: [first, count, first, count, ...]."""
    ranges: list[int] = []
    for code in sorted(codes):
        if ranges and code == ranges[-2] + ranges[-1]:
            ranges[-1] += 1
        else:
            ranges += [code, 1]
    return ranges


def _check(tokenizer: Any, content: dict[str, Any]) -> None:
    """Refuse a tokenizer that does more than the page does."""
    first, separator, pair = (
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
        tokenizer.backend_tokenizer.encode("a", "a"),
    )
    structure = (pair.ids[::2], pair.type_ids) == ([first, separator, separator], [0, 0, 0, 1, 1])
    kinds = [(content[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
    flags = ("single_word", "lstrip", "rstrip", "normalized")
    plain = not any(token[flag] for token in content["added_tokens"] for flag in flags)
    if kinds != ["BertNormalizer", "BertPreTokenizer", "WordPiece"] or not plain or not structure:
        message = f"A live page cannot run the tokenizer {type(tokenizer).__name__}. {CHOICE}"
        raise ModelError(message, part="tokenizer")
