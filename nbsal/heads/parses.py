"""Parses: which word depends on which, from CoNLL-U, spaCy or plain lists, and where words lie among tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbsal.errors import InputError
from nbsal.model.tokens import Row
from nbsal.validation import loading

ROOT = -1
ALIASES = {"dobj": "obj"}  # what older schemes, spaCy's English pipelines among them, call the object


@dataclass(frozen=True)
class ParsedWord:
    """A word where it stands in the text, the index of the word it depends on, and how."""

    start: int
    end: int
    head: int
    relation: str


@dataclass(frozen=True)
class Parse:
    """One sentence with its dependency tree.

    >>> Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"]).text
    'good food'
    """

    text: str
    words: tuple[ParsedWord, ...]

    @classmethod
    def from_lists(
        cls, words: Sequence[str], heads: Sequence[int], relations: Sequence[str], text: str | None = None
    ) -> "Parse":
        """From words, the index of each word's head (-1 for the root) and each word's relation to it."""
        if not len(words) == len(heads) == len(relations):
            raise InputError("A parse has one head and one relation for each word.")
        text = " ".join(words) if text is None else text
        for head in heads:
            if not -1 <= head < len(words):
                raise InputError(f"A head is the index of a word, or -1 for the root, not {head}.")
        spans = locate_words(text, words)
        names = [ALIASES.get(relation, relation) for relation in relations]
        parsed = (ParsedWord(*span, int(h), r) for span, h, r in zip(spans, heads, names, strict=True))
        return cls(text, tuple(parsed))

    @classmethod
    def from_spacy(cls, doc: Any) -> "Parse":
        """From a parsed spaCy Doc."""
        heads = [ROOT if token.head.i == token.i else token.head.i for token in doc]
        parsed = (
            ParsedWord(token.idx, token.idx + len(token.text), head, ALIASES.get(token.dep_, token.dep_))
            for token, head in zip(doc, heads, strict=True)
        )
        return cls(doc.text, tuple(parsed))


@dataclass(frozen=True)
class Link:
    """A word that depends on another, among the tokens of a text."""

    relation: str
    origin: int | None  # the token that should look: the first of its word; None where no token covers a word
    goal: tuple[int, ...]  # the tokens it should look at
    distance: int  # how many words after the dependent its head stands


def locate_words(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where the words stand in the text, one after the other."""
    found, at = [], 0
    for word in words:
        start = text.find(word, at)
        if start < 0 or not word:
            raise InputError(f"The parse does not match its text: {word!r} is not found in {text[at:]!r:.60}.")
        at = start + len(word)
        found.append((start, at))
    return found


def from_conllu(source: str | Path) -> list[Parse]:
    """Every sentence of a CoNLL-U file, or of its text."""
    import conllu
    from conllu.exceptions import ParseException

    is_text = isinstance(source, str) and ("\t" in source or "\n" in source)
    with loading("This" if is_text else source, "CoNLL-U"):
        text = str(source) if is_text else Path(source).read_text(encoding="utf-8")
        try:
            sentences = conllu.parse(text)
        except ParseException as error:
            raise ValueError(error) from error
        if not sentences:
            raise InputError("This CoNLL-U holds no sentence.")
        return [_from_sentence(sentence) for sentence in sentences]


def read_parses(parses: Any) -> list[Parse]:
    """Parses from whatever holds them: a CoNLL-U path or text, a list of Parse, or spaCy docs."""
    if isinstance(parses, str | Path):
        return from_conllu(parses)
    if isinstance(parses, Iterable):
        found = [one if isinstance(one, Parse) else _from_doc(one) for one in parses]
        if found:
            return found
    raise InputError("There are no parses: give a CoNLL-U path, a list of nbsal.heads.Parse, or spaCy docs.")


def align_words(row: Row, parse: Parse) -> list[tuple[int, ...]]:
    """The content tokens that overlap each word, by character offsets, so that any tokenizer will do."""
    places = [(i, *row.offsets[i]) for i in row.content if row.offsets[i][0] < row.offsets[i][1]]
    return [tuple(i for i, start, end in places if start < word.end and end > word.start) for word in parse.words]


def links(row: Row, parse: Parse, direction: str) -> Iterator[Link]:
    """Every dependency of a sentence, from the dependent to its "head", from the head to its "dependent", or "both"."""
    tokens = align_words(row, parse)
    for number, word in enumerate(parse.words):
        if word.head == ROOT:
            continue
        ours, theirs = tokens[number], tokens[word.head]
        for way, origin, goal in (("head", ours, theirs), ("dependent", theirs, ours)):
            if direction in (way, "both"):
                yield Link(word.relation, origin[0] if origin and goal else None, goal, word.head - number)


def _from_doc(doc: Any) -> Parse:
    if not hasattr(doc, "has_annotation"):
        raise InputError(f"A parse is an nbsal.heads.Parse or a spaCy Doc, not {type(doc).__name__}.")
    if not doc.has_annotation("DEP"):
        raise InputError("The spaCy pipeline has no parser: its docs carry no dependencies.")
    return Parse.from_spacy(doc)


def _from_sentence(sentence: Any) -> Parse:
    """A multiword token (don't = do + n't) lends its place to its parts where they do not spell it out."""
    nodes = [token for token in sentence if isinstance(token["id"], int)]
    if any(name not in node for node in nodes for name in ("form", "head", "deprel", "misc")):
        raise InputError("This is not CoNLL-U: a word lacks some of its ten columns.")
    ranges = {token["id"][0]: token for token in sentence if isinstance(token["id"], tuple) and token["id"][1] == "-"}
    surface, members = [], []
    at = 0
    while at < len(nodes):
        whole = ranges.get(nodes[at]["id"])
        size = 1 if whole is None else whole["id"][2] - whole["id"][0] + 1
        surface.append(whole or nodes[at])
        members.append([node["form"] for node in nodes[at : at + size]])
        at += size
    text = sentence.metadata.get("text") or _rebuilt(surface)
    spans: list[tuple[int, int]] = []
    for (start, end), parts in zip(locate_words(text, [token["form"] for token in surface]), members, strict=True):
        if "".join(parts) == text[start:end]:
            spans += [(start + a, start + b) for a, b in locate_words(text[start:end], parts)]
        else:
            spans += [(start, end)] * len(parts)
    parsed = []
    for (start, end), node in zip(spans, nodes, strict=True):
        head = ROOT if not node["head"] else node["head"] - 1
        if head >= len(nodes):
            raise InputError(f"The parse of {text!r:.60} has a head beyond its last word.")
        parsed.append(ParsedWord(start, end, head, ALIASES.get(node["deprel"], node["deprel"])))
    return Parse(text, tuple(parsed))


def _rebuilt(surface: Sequence[Any]) -> str:
    spaces = ["" if (token["misc"] or {}).get("SpaceAfter") == "No" else " " for token in surface]
    return "".join(token["form"] + space for token, space in zip(surface, spaces, strict=True)).rstrip()
