"""The citations of an answer: their statements, and whether the documents that they name are used."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from nbsal.explain.citations.marks import Citation, find_citations, without_marks
from nbsal.explain.citations.quotes import Quote, find_quotes
from nbsal.explain.citations.subsets import (
    Documents,
    DocumentSubsets,
    document_units,
    first_subsets,
    hide_documents,
    measure_documents,
    question_of,
)
from nbsal.explain.citations.verdicts import StatementWord, Support, candidates, content_words, judge_support
from nbsal.explain.prompt.reading import Prompt, PromptWithReply
from nbsal.explain.prompt.sources import Source
from nbsal.explain.scoring.lazy import ReplyExperiment, served
from nbsal.model.text.tokens import Span
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter

WRITTEN = "written"  # entry of a provenance: the reply with the marks that the model does not read


def without_unknown_marks(tokenizer: Any, prompt: Prompt, reply: str) -> str:
    """A reply as a model reads it: without its marks if the vocabulary has no token for them."""
    titles = [source.title for source in prompt.sources if source.kind == "document"]
    marks = [citation.marks for citation in find_citations(reply, titles)]
    unknown, written = getattr(tokenizer, "unk_token_id", None), "".join(reply[slice(*mark)] for mark in marks)
    if unknown is None or not marks or unknown not in tokenizer(written, add_special_tokens=False)["input_ids"]:
        return reply
    return without_marks(reply, marks)[0]


@dataclass(frozen=True)
class CitedStatement:
    """A citation of a reply: its statement in the reply that the model reads, and its tokens and content words."""

    citation: Citation
    text: str
    span: Span
    tokens: tuple[int, ...]
    words: tuple[StatementWord, ...]


@dataclass(frozen=True)
class CitedReply:
    """A reply with its citations, and the documents that they may name."""

    reading: PromptWithReply
    written: str  # the reply with all of its marks
    form: str | None = None

    @cached_property
    def _sources(self) -> list[Source]:
        return [self.reading.prompt.sources[unit.source] for unit in document_units(self.reading.prompt)]

    @cached_property
    def documents(self) -> list[str]:
        """The texts of the documents, each below its title."""
        return [f"{source.title}\n{source.text}".lstrip("\n") for source in self._sources]

    @cached_property
    def citations(self) -> list[Citation]:
        """The citations, with their characters in the reply as it was written."""
        return find_citations(self.written, [source.title for source in self._sources], self.form)

    @cached_property
    def statements(self) -> list[CitedStatement]:
        """The statement of each citation."""
        return list(self._statements())

    def _statements(self) -> Iterator[CitedStatement]:
        citations, documents, question = self.citations, self.documents, question_of(self.reading.prompt)
        known = citations if self.form is None else replace(self, form=None).citations
        place = _Places(self.written, self.reading.reply, known)
        for citation in citations:
            text = self.written[slice(*citation.span)]
            span = place.of(citation.span)
            spans = self.reading.reply_spans
            tokens = [i for i in self.reading.content if spans[i][0] < span[1] and span[0] < spans[i][1]]
            words = content_words(self.reading.reply, span, spans, question, documents)
            if tokens:
                yield CitedStatement(citation, text, span, tuple(tokens), tuple(words))

    def quotes(self) -> list[Quote]:
        """The quotes, with their characters in the reply as it was written."""
        return list(find_quotes(self.written, self.documents))


class _Places:
    """Where characters of a text stand in the same text without its marks, which may have other white space."""

    def __init__(self, written: str, read: str, citations: Sequence[Citation]) -> None:
        marks = [] if written == read else [citation.marks for citation in citations]
        kept = set(without_marks(written, marks)[1])
        visible = [place for place, character in enumerate(read) if not character.isspace()]
        self.before, count = [0], 0  # how many visible characters are before each of the written text
        for place, character in enumerate(written):
            count += place in kept and not character.isspace()
            self.before.append(count)
        self.places = [*visible, len(read)]

    def of(self, span: Span) -> Span:
        first, last = (min(self.before[place], len(self.places) - 1) for place in span)
        return self.places[first], self.places[last - 1] + 1 if last > first else self.places[first]


def groups_of(statements: Sequence[CitedStatement], count: int) -> list[Documents]:
    """The documents that are cited together, which are hidden together and kept together."""
    groups = (tuple(sorted({*each.citation.cites} & {*range(1, count + 1)})) for each in statements)
    return [group for group in dict.fromkeys(groups) if len(group) > 1]


def most_passes(reply: CitedReply) -> int:
    """The most forward passes that `measure_citations` takes; none for a reply without citations."""
    if not (statements := reply.statements):
        return 0
    documents = tuple(range(1, len(reply.documents) + 1))
    return len(first_subsets(documents, groups_of(statements, len(documents)))) + len(statements)


def measure_citations(
    reply: CitedReply, experiment: ReplyExperiment, subsets: DocumentSubsets | None = None, meter: Meter | None = None
) -> DocumentSubsets:
    """What the documents of a reply do to it: each, those that are cited together, and those that say the same."""
    statements = reply.statements
    if (server := served.server_of(experiment.ablation.subject)) is not None:  # count before anything is sent
        server.caller.check(most_passes(reply))
    hiding = hide_documents(experiment)
    subsets = subsets or measure_documents(experiment, meter)
    groups = groups_of(statements, len(subsets.documents))
    subsets = subsets.run(hiding, first_subsets(subsets.documents, groups), meter)
    together = [candidates(statement.words, subsets) for statement in statements]
    return subsets.run(hiding, ({*subsets.documents}.difference(some) for some in together), meter)


def supports(reply: CitedReply, subsets: DocumentSubsets) -> list[tuple[CitedStatement, Support]]:
    """Each citation with what the documents do to its statement."""
    return [
        (statement, judge_support(statement.words, statement.tokens, statement.citation.cites, subsets))
        for statement in reply.statements
    ]


COLUMNS = ("statement", "cites", "says_so", "drop", "only", "used_instead", "quote_exact", "verdict")


def citations_frame(reply: CitedReply, subsets: DocumentSubsets | None) -> "pandas.DataFrame":
    """See `Answer.citations`."""
    quotes = reply.quotes()
    rows = [
        (
            statement.text,
            statement.citation.cites,
            support.says_so,
            support.drop,
            support.only,
            support.instead,
            quotes_exactly(statement, quotes, reply.documents),
            support.verdict,
        )
        for statement, support in ([] if subsets is None else supports(reply, subsets))
    ]
    frame = pandas.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({"used_instead": "Int64"})


def quotes_exactly(statement: CitedStatement, quotes: Sequence[Quote], documents: Sequence[str]) -> bool | None:
    """Whether all quotes of a statement stand in the documents that it cites; None if it has none."""
    (start, end), numbers = statement.citation.span, range(1, len(documents) + 1)
    own = [quote for quote in quotes if start <= quote.span[0] and quote.span[1] <= end]
    texts = [documents[number - 1] for number in statement.citation.cites if number in numbers]
    return all(any(quote.text in text for text in texts) for quote in own) if own else None


def quotes_frame(reply: CitedReply) -> "pandas.DataFrame":
    """See `Answer.quotes`."""
    rows = [
        (quote.text, *quote.span, quote.found, quote.document, *(quote.place or (None, None)))
        for quote in reply.quotes()
    ]
    names = ["quote", "start", "end", "found", "document", "document_start", "document_end"]
    whole = dict.fromkeys(names[4:], "Int64")
    return pandas.DataFrame(rows, columns=names).astype(whole)
