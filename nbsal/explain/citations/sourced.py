"""The citations and the fields of a reply as rows, which link its words to the documents, for views and copies."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from nbsal.explain.citations.cited import CitedReply, CitedStatement, quotes_exactly, supports
from nbsal.explain.citations.subsets import Documents, DocumentSubsets, document_units
from nbsal.explain.citations.verdicts import DECORATION, ELSEWHERE, INVENTED, SUPPORTED, UNCLEAR, StatementWord, Support
from nbsal.explain.prompt.reading import Prompt
from nbsal.explain.sentences import citation_sentences as sentences
from nbsal.explain.sentences.reply_facts import HALVED, source_names
from nbsal.explain.sentences.reply_sentences import joined
from nbsal.render.headline import phrases
from nbsal.render.html import ScoredSpan
from nbsal.render.sheet import Block, Card, CellTable, Heading, Marked, Note
from nbsal.support.arrays import Floats
from nbsal.support.lazy import pandas

MOST_NAMED = 2  # documents from which on all of them have one name


@dataclass(frozen=True)
class SourcedRow:
    """A statement with its citation, or a field: `words` and `reason` say whether documents give it.

    `name` is what it cites, or the path of a field; `mark` its mark as written, or the document of a field. A choice
    selects those `tokens` of the reply, or `positions` of the prompt; `links` are sources, and what each is to it.
    """

    verdict: str
    words: str
    name: str
    text: str
    mark: str
    reason: str = ""
    numbers: str = ""
    tokens: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    links: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class SourcedRows:
    """What a view, and its copies, show of a reply's citations and fields."""

    statements: Sequence[SourcedRow] = ()
    fields: Sequence[SourcedRow] = ()

    @property
    def finding(self) -> str:
        """How many citations and fields have each verdict."""
        counted = ((self.statements, "citation"), (self.fields, "field"))
        return "; ".join(sentences.finding([row.verdict for row in rows], noun) for rows, noun in counted if rows)

    @property
    def note(self) -> str:
        """How that was measured."""
        notes = zip((self.statements, self.fields), sentences.NOTES, strict=True)
        return "; ".join(note for rows, note in notes if rows)

    @property
    def blocks(self) -> list[Block]:
        """The same in copies; nothing where nothing is checked."""
        if not self.finding:
            return []
        table = [[row.words, row.name, row.text, row.mark, row.numbers] for row in self.fields]
        fields = [CellTable(table)] if table else []
        return [Heading(phrases(self.finding), self.note), *map(_card, self.statements), *fields]

    def roles(self, tokens: Collection[int]) -> dict[int, str]:
        """What each source is to the statements of some tokens of the reply."""
        return {
            source: role
            for row in self.statements
            if not {*row.tokens}.isdisjoint(tokens)
            for source, role in row.links
        }


NOT_CHECKED = SourcedRows()


def _card(row: SourcedRow) -> Card:
    sentence = Marked([[ScoredSpan(f"{row.text} {row.mark}")], [ScoredSpan(row.reason)]], 1.0, large=False)
    return Card([sentence, Note(row.numbers)], row.words, row.name)


def citation_rows(reply: CitedReply, subsets: DocumentSubsets | None) -> list[SourcedRow]:
    """A row for each citation of a reply."""
    if subsets is None:
        return []
    names, quotes = _names(reply.reading.prompt), reply.quotes()
    return [
        _Statement(statement, support, subsets, names).row(reply, quotes_exactly(statement, quotes, reply.documents))
        for statement, support in supports(reply, subsets)
    ]


def _names(prompt: Prompt) -> list[str]:
    """The documents in a sentence; results of tools are numbered, since all have one name."""
    names = source_names(prompt.sources)
    return [
        names[unit.source].sentence if prompt.has_documents else f"tool result {number}"
        for number, unit in enumerate(document_units(prompt), 1)
    ]


@dataclass(frozen=True)
class _Statement:
    """A statement with what the documents, whose names these are, do to it."""

    statement: CitedStatement
    support: Support
    subsets: DocumentSubsets
    names: Sequence[str]

    @property
    def cited(self) -> Documents:
        """The documents that it cites, as far as there are such."""
        return tuple(number for number in self.statement.citation.cites if number in self.subsets.documents)

    @property
    def used(self) -> Documents:
        """The documents that it needs."""
        return () if self.support.verdict in (DECORATION, INVENTED) else self.support.needed

    @property
    def others(self) -> Documents:
        """Those of them that it does not cite."""
        return tuple(number for number in self.used if number not in self.cited)

    @property
    def also(self) -> Documents:
        """The documents that would do as well as the cited one: without that alone, the statement does not fall."""
        return self.others if self.support.verdict == SUPPORTED and self.support.drop < HALVED else ()

    def row(self, reply: CitedReply, exact: bool | None) -> SourcedRow:
        """The row of the statement; `exact` says whether its documents have its quotes."""
        citation, verdict = self.statement.citation, self.support.verdict
        instead = "" if self.support.instead is None else self.names[self.support.instead - 1]
        if verdict == UNCLEAR and {*self.cited}.isdisjoint(self.used):
            instead = joined(self._named(self.others))
        missing = tuple(number for number in citation.cites if number not in self.subsets.documents)
        cited = self._named(self.cited)
        return SourcedRow(
            verdict,
            sentences.verdict_words(verdict, instead if verdict == ELSEWHERE else ""),
            f"cites {joined([*cited, *(f'document {number}' for number in missing)])}",
            self.statement.text,
            reply.written[slice(*citation.marks)],
            sentences.reason(verdict, cited, instead, self._named(self.also), missing, exact is False),
            self._effects(),
            self.statement.tokens,
            links=tuple(self._links()),
        )

    def _effects(self) -> str:
        """What documents do to the word of the statement that falls most without those that it needs, or cites."""
        every = self.subsets.documents
        hidden = [self.cited, self.used, every if self.support.verdict == INVENTED else ()]
        without = list(dict.fromkeys(filter(None, hidden)))
        words = [word for word in self.statement.words if not word.in_question] or self.statement.words
        word = max(words, key=lambda word: self._fall(word, without[-1]))
        whole, nothing, alone = (_total(word, self.subsets.only(each)) for each in (every, (), self.cited))
        changes = [
            (whole, _total(word, self.subsets.without(each)), f"without {joined(self._named(each))}")
            for each in without
        ]
        if self.cited:
            changes.append((nothing, alone, f"with {joined(self._named(self.cited))} alone"))
        return sentences.effects_text(word.text, changes, len(word.tokens))

    def _fall(self, word: StatementWord, hidden: Documents) -> float:
        return _total(word, self.subsets.drop(hidden))

    def _named(self, numbers: Documents) -> tuple[str, ...]:
        every = len(numbers) == len(self.names) > MOST_NAMED
        return (sentences.ALL,) if every else tuple(self.names[number - 1] for number in numbers)

    def _links(self) -> Iterator[tuple[int, str]]:
        for number, source in enumerate(self.subsets.sources, 1):
            role = number in self.cited, number in self.used
            if any(role):
                yield source, sentences.WOULD_DO if number in self.also else sentences.USED[role]


def _total(word: StatementWord, values: Floats) -> float:
    return float(values[list(word.tokens)].sum())


def field_rows(fields: "pandas.DataFrame", prompt: Prompt) -> list[SourcedRow]:
    """A row for each field of a reply, from `Answer.fields`: its value, and where a document gives it."""
    units, names, rows = document_units(prompt), _names(prompt), []
    for field in fields.to_dict("records"):
        placed = not pandas.isna(field["document"])
        number = int(field["document"]) - 1 if placed else 0
        source = units[number].source
        rows.append(
            SourcedRow(
                field["verdict"],
                sentences.verdict_words(field["verdict"]),
                field["path"],
                str(field["value"]),
                names[number] if placed else "",
                numbers="" if pandas.isna(field["drop"]) else sentences.fall_text(field["drop"]),
                positions=prompt.tokens_at(source, (field["start"], field["end"])) if placed else (),
                links=((source, sentences.FIELD_LINK),) if placed else (),
            )
        )
    return rows
