"""Dependency parses from CoNLL-U, spaCy or plain lists, and their alignment with tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbsal.model.text.tokens import Row
from nbsal.support.errors import InputError
from nbsal.support.validation import checked, is_iterable, loading, plural

ROOT = -1
ALIASES = {"dobj": "obj"}  # the name of the object in older schemes, such as that of spaCy's English pipelines


@dataclass(frozen=True)
class ParsedWord:
    """A word: its place in the text, the index of its head and its relation to it."""

    start: int
    end: int
    head: int
    relation: str


@checked
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
        """Create a parse from words, the index of each word's head (-1 for the root) and its relation to the head."""
        if not len(words) == len(heads) == len(relations):
            message = f"Pass one head and one relation per word: {len(words)}, not {len(heads)} and {len(relations)}."
            raise InputError(message, argument="heads", value=heads)
        text = " ".join(words) if text is None else text
        for head in heads:
            if not -1 <= head < len(words):
                message = f"heads must hold indices of words, or -1 for the root, not {head}."
                raise InputError(message, argument="heads", value=head)
        spans = locate_words(text, words)
        names = [ALIASES.get(relation, relation) for relation in relations]
        parsed = (ParsedWord(*span, int(h), r) for span, h, r in zip(spans, heads, names, strict=True))
        return cls(text, tuple(parsed))

    @classmethod
    def from_spacy(cls, doc: Any) -> "Parse":
        """Create a parse from a parsed spaCy Doc."""
        if not hasattr(doc, "has_annotation"):
            raise InputError(f"doc must be a spaCy Doc, not {type(doc).__name__}.", argument="doc", value=doc)
        heads = [ROOT if token.head.i == token.i else token.head.i for token in doc]
        parsed = (
            ParsedWord(token.idx, token.idx + len(token.text), head, ALIASES.get(token.dep_, token.dep_))
            for token, head in zip(doc, heads, strict=True)
        )
        return cls(doc.text, tuple(parsed))


@dataclass(frozen=True)
class Link:
    """A dependency between words, as tokens of a text."""

    relation: str
    origin: int | None  # the attending token, the first of its word; None where no token covers a word
    goal: tuple[int, ...]  # the tokens of the other word
    distance: int  # number of words from the dependent to its head


def locate_words(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Find the words in the text, in order, and give the span of each."""
    spans, end = [], 0
    for word in words:
        start = text.find(word, end)
        if start < 0 or not word:
            message = f"The parse does not match its text: {word!r} is not in {text[end:]!r:.60}."
            raise InputError(message, argument="text", value=text)
        end = start + len(word)
        spans.append((start, end))
    return spans


@checked
def from_conllu(source: str | Path) -> list[Parse]:
    """Parse every sentence of CoNLL-U; `source` is a path, or the content itself."""
    import conllu
    from conllu.exceptions import ParseException

    is_text = isinstance(source, str) and ("\t" in source or "\n" in source)
    with loading("The input" if is_text else source, "CoNLL-U file"):
        text = str(source) if is_text else Path(source).read_text(encoding="utf-8")
        try:
            sentences = conllu.parse(text)
        except ParseException as error:
            raise ValueError(error) from error
        if not sentences:
            raise InputError("The CoNLL-U input contains no sentence.", argument="parses", value=source)
        return [_from_sentence(sentence) for sentence in sentences]


def read_parses(parses: Any) -> list[Parse]:
    """Read parses from a CoNLL-U path or text, a list of Parse, or spaCy docs."""
    if isinstance(parses, str | Path):
        return from_conllu(parses)
    if is_iterable(parses):
        sentences = [parse if isinstance(parse, Parse) else _from_doc(parse) for parse in parses]
        if sentences:
            return sentences
    message = f"parses must be a CoNLL-U path, a list of nbsal.heads.Parse, or spaCy docs, not {parses!r:.60}."
    raise InputError(message, argument="parses", value=parses)


def align_words(row: Row, parse: Parse) -> list[tuple[int, ...]]:
    """The content tokens that overlap each word by character offsets, which works with any tokenizer."""
    places = [(i, *row.offsets[i]) for i in row.content if row.offsets[i][0] < row.offsets[i][1]]
    return [tuple(i for i, start, end in places if start < word.end and end > word.start) for word in parse.words]


def links(row: Row, parse: Parse, direction: str) -> Iterator[Link]:
    """Every dependency of a sentence, from the dependent to its "head", from the head to its "dependent", or "both"."""
    tokens = align_words(row, parse)
    for number, word in enumerate(parse.words):
        if word.head == ROOT:
            continue
        dependent, head = tokens[number], tokens[word.head]
        for towards, origin, goal in (("head", dependent, head), ("dependent", head, dependent)):
            if direction in (towards, "both"):
                yield Link(word.relation, origin[0] if origin and goal else None, goal, word.head - number)


def _from_doc(doc: Any) -> Parse:
    if not hasattr(doc, "has_annotation"):
        message = f"parses must hold nbsal.heads.Parse or spaCy Doc objects, not {type(doc).__name__}."
        raise InputError(message, argument="parses", value=doc)
    if not doc.has_annotation("DEP"):
        message = "The spaCy docs have no dependencies. Use a pipeline with a parser."
        raise InputError(message, argument="parses", value=doc)
    return Parse.from_spacy(doc)


def _from_sentence(sentence: Any) -> Parse:
    """A parse from a sentence; the parts of a multiword token each get its whole span if they do not spell it."""
    nodes = [token for token in sentence if isinstance(token["id"], int)]
    if any(name not in node for node in nodes for name in ("form", "head", "deprel", "misc")):
        raise InputError("The CoNLL-U input has a word with fewer than ten columns.", argument="parses", value=sentence)
    ranges = {token["id"][0]: token for token in sentence if isinstance(token["id"], tuple) and token["id"][1] == "-"}
    surface, members = [], []
    start = 0
    while start < len(nodes):
        multiword = ranges.get(nodes[start]["id"])
        size = 1 if multiword is None else multiword["id"][2] - multiword["id"][0] + 1
        surface.append(multiword or nodes[start])
        members.append([node["form"] for node in nodes[start : start + size]])
        start += size
    text = sentence.metadata.get("text") or _join_tokens(surface)
    spans: list[tuple[int, int]] = []
    for (start, end), parts in zip(locate_words(text, [token["form"] for token in surface]), members, strict=True):
        if "".join(parts) == text[start:end]:
            spans += [(start + a, start + b) for a, b in locate_words(text[start:end], parts)]
        else:
            spans += [(start, end)] * len(parts)
    parsed = []
    for (start, end), node in zip(spans, nodes, strict=True):
        head = ROOT if not node["head"] else node["head"] - 1
        if not ROOT <= head < len(nodes):
            message = f"The parse of {text!r:.60} has the head {head + 1}, but {plural(len(nodes), 'word')}."
            raise InputError(message, argument="parses", value=head + 1)
        parsed.append(ParsedWord(start, end, head, ALIASES.get(node["deprel"], node["deprel"])))
    return Parse(text, tuple(parsed))


def _join_tokens(surface: Sequence[Any]) -> str:
    """The text of a sentence without a text line, by the SpaceAfter marks of its tokens."""
    spaces = ["" if (token["misc"] or {}).get("SpaceAfter") == "No" else " " for token in surface]
    return "".join(token["form"] + space for token, space in zip(surface, spaces, strict=True)).rstrip()
