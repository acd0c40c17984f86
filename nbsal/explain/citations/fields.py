"""Where the values of a JSON reply are from: the document of each, its span there, and what hiding all copies does."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nbsal.ablation import tables
from nbsal.ablation.texts import REMOVE
from nbsal.explain.citations.leaves import Leaf, read_leaves
from nbsal.explain.citations.subsets import (
    DocumentSubsets,
    document_units,
    first_subsets,
    measure_documents,
    question_of,
)
from nbsal.explain.citations.verdicts import (
    FROM_DOCUMENTS,
    INVENTED,
    LIKELY,
    UNCLEAR,
    StatementWord,
    content_words,
    falls_without,
    givers_of,
)
from nbsal.explain.citations.written import WrittenText
from nbsal.explain.prompt.reading import PromptWithReply, Unit
from nbsal.explain.scoring.lazy import ReplyExperiment, served
from nbsal.explain.scoring.lazy import experiment as experiments
from nbsal.explain.sentences.evidence import MOST_PARTS
from nbsal.model.text.tokens import Span
from nbsal.support.arrays import Floats
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter

COLUMNS = ("path", "value", "document", "start", "end", "drop", "verdict")
Place = tuple[int, Span]  # a document, from 1, and characters of it
Copies = frozenset[Place]


@dataclass(frozen=True)
class FieldSource:
    """A value of a reply, and where it is from.

    `place` was hidden together with all of its copies in all documents; `drop` is by how much the value's
    log-probability falls then, in nats.
    """

    leaf: Leaf
    place: Place | None
    drop: float
    verdict: str  # "from the documents", "not from the documents" or "unclear"


@dataclass(frozen=True)
class ExtractedField:
    """A value with its tokens, the words by which it is compared, and where documents write it, and how exactly."""

    leaf: Leaf
    tokens: tuple[int, ...]
    words: tuple[StatementWord, ...]
    written: Mapping[Place, int]

    @property
    def says_something(self) -> bool:
        return self.leaf.value is not None and any(map(str.isalnum, self.leaf.value))


@dataclass(frozen=True)
class ExtractedReply:
    """A reply whose values are from documents, or are not."""

    reading: PromptWithReply

    @cached_property
    def documents(self) -> list[Unit]:
        return document_units(self.reading.prompt)

    @cached_property
    def texts(self) -> list[WrittenText]:
        """The documents, without their titles."""
        return [WrittenText(self.reading.prompt.sources[unit.source].text) for unit in self.documents]

    @cached_property
    def fields(self) -> list[ExtractedField]:
        """The values."""
        leaves, written, first = read_leaves(self.reading.reply), dict[str, dict[Place, int]](), dict[str, Leaf]()
        fields = []
        for leaf in leaves:
            value = leaf.value or ""
            if first.setdefault(value, leaf) is leaf:
                written[value] = dict(self._written(value))
            fields.append(self._field(leaf, first[value], written[value]))
        return fields

    def _field(self, leaf: Leaf, first: Leaf, written: Mapping[Place, int]) -> ExtractedField:
        """A value. One that the reply has before is judged together with the first mention, which it may repeat."""
        tokens = self._tokens(leaf.span)
        if not tokens or not written:
            return ExtractedField(leaf, tokens, self._content_words(leaf, tokens) if tokens else (), written)
        documents = frozenset(document for document, _ in written)
        both = tuple(dict.fromkeys((*self._tokens(first.span), *tokens)))
        word = StatementWord(leaf.value or "", both, bool(self._question.places(leaf.value or "")), documents)
        return ExtractedField(leaf, tokens, (word,), written)

    def _written(self, value: str) -> Iterator[tuple[Place, int]]:
        for number, text in enumerate(self.texts, 1):
            for how, span in text.places(value):
                yield (number, span), how

    @cached_property
    def _question(self) -> WrittenText:
        return WrittenText(question_of(self.reading.prompt))

    def _tokens(self, span: Span) -> tuple[int, ...]:
        """The reply's tokens at some characters."""
        starts, ends = self._edges
        places = range(bisect_right(ends, span[0]), bisect_left(starts, span[1]))
        return tuple(place for place in places if not self.reading.reply_special[place])

    @cached_property
    def _edges(self) -> tuple[list[int], list[int]]:
        return [start for start, _ in self.reading.reply_spans], [end for _, end in self.reading.reply_spans]

    def _content_words(self, leaf: Leaf, tokens: Sequence[int]) -> tuple[StatementWord, ...]:
        """The words of a value that no document writes as a whole."""
        spans, documents = [self.reading.reply_spans[token] for token in tokens], [text.text for text in self.texts]
        words = content_words(self.reading.reply, leaf.span, spans, self._question.text, documents)
        return tuple(replace(word, tokens=tuple(tokens[at] for at in word.tokens)) for word in words)

    def best_place(self, field: ExtractedField, givers: Mapping[int, float]) -> Place | None:
        """Where a value is from, of the places that write it: by document, then by the words around.

        Documents that do not give it count only where none does.
        """
        places = [place for place in field.written if place[0] in givers] or [*field.written]

        def fit(place: Place) -> tuple[float, ...]:
            document, span = place
            *named, nearest = self.texts[document - 1].fit(field.leaf.path, span)
            return (*named, -field.written[place], givers.get(document, 0.0), nearest)

        return max(places, key=fit, default=None)

    def parts(self, document: int) -> list[Unit]:
        """The sentences and lines of a document, several as one where there are very many."""
        source = self.documents[document - 1].source
        units = [unit for unit in self.reading.units("sentence") if unit.source == source]
        size = -(-len(units) // MOST_PARTS)
        return [_merged(units[start : start + size]) for start in range(0, len(units), size or 1)]

    def units_at(self, places: Copies) -> list[Unit]:
        """Places as units that can be hidden; without those whose tokens are not known."""
        units = (self._unit_at(*place) for place in sorted(places))
        return [unit for unit in units if unit.tokens]

    def _unit_at(self, document: int, span: Span) -> Unit:
        whole = self.documents[document - 1]
        tokens = self.reading.prompt.tokens_at(whole.source, span)
        return Unit(whole.name, self.texts[document - 1].text[slice(*span)], whole.source, span, tokens)

    def copies(self, field: ExtractedField, place: Place | None) -> Copies:
        """All places that write a value; if none does, those that write what stands at a place."""
        if field.written or place is None:
            return frozenset(field.written)
        document, span = place
        written = self._written(self.texts[document - 1].text[slice(*span)])
        return frozenset((place, *(other for other, _ in written)))


def _merged(units: Sequence[Unit]) -> Unit:
    """Neighbouring parts as one."""
    tokens = tuple(token for unit in units for token in unit.tokens)
    text = "".join(unit.text for unit in units)
    return replace(units[0], text=text, span=(units[0].span[0], units[-1].span[1]), tokens=tokens)


def most_passes_of_fields(reply: ExtractedReply) -> int:
    """The most forward passes that `measure_fields` takes; none for a reply without values."""
    if not reply.fields:
        return 0
    documents = range(1, len(reply.documents) + 1)
    in_parts = any(not field.written for field in reply.fields)
    parts = sum(len(reply.parts(document)) for document in documents) if in_parts else 0
    return len(first_subsets(tuple(documents))) + len(reply.fields) + parts


def measure_fields(
    reply: ExtractedReply, experiment: ReplyExperiment, subsets: DocumentSubsets | None, meter: Meter
) -> tuple[DocumentSubsets, tuple[FieldSource, ...]]:
    """What the documents do to a reply, and where each of its values is from."""
    if (server := served.server_of(experiment.ablation.subject)) is not None:  # count before anything is sent
        server.caller.check(most_passes_of_fields(reply))
    subsets = subsets or measure_documents(experiment, meter)
    before = subsets.without(())
    givers = [givers_of(field.words, subsets) for field in reply.fields]
    places = [reply.best_place(*pair) for pair in zip(reply.fields, givers, strict=True)]
    parts = _decisive_parts(reply, experiment, givers, meter)
    places = [place or part for place, part in zip(places, parts, strict=True)]
    copies = [reply.copies(field, place) for field, place in zip(reply.fields, places, strict=True)]
    after = _without(reply, experiment, copies, meter)
    rows = zip(reply.fields, places, copies, strict=True)
    return subsets, tuple(_judged(field, place, before, after.get(hidden)) for field, place, hidden in rows)


def _decisive_parts(
    reply: ExtractedReply, experiment: ReplyExperiment, givers: Sequence[Mapping[int, float]], meter: Meter
) -> list[Place | None]:
    """Of each value that is from a document, but written in none, the sentence or line without which it falls most."""
    documents = [
        None if field.written or not effects else max(effects, key=effects.__getitem__)
        for field, effects in zip(reply.fields, givers, strict=True)
    ]
    decisive: list[Place | None] = [None] * len(documents)
    for document in sorted({each for each in documents if each}):
        parts = reply.parts(document)
        alone = [[number] for number in range(len(parts))]
        logprob = experiment.with_units(parts, REMOVE).numbers(tables.without(len(parts), *alone), meter=meter)
        text = reply.texts[document - 1].text
        for number, field in enumerate(reply.fields):
            if documents[number] == document:
                start, end = parts[int(logprob[:, list(field.tokens)].sum(1).argmin())].span
                decisive[number] = document, (start, start + len(text[start:end].rstrip()))
    return decisive


def _without(
    reply: ExtractedReply, experiment: ReplyExperiment, copies: Sequence[Copies], meter: Meter
) -> dict[Copies, Floats]:
    """The log-probability of each token of the reply without some places, for each set of them that has tokens."""
    units = {each: reply.units_at(each) for each in dict.fromkeys(copies)}
    hiding = {each: experiment.with_units(some, REMOVE) for each, some in units.items() if some}
    nothing = [tables.only(len(each.parts), []) for each in hiding.values()]
    experiments.run([*hiding.values()], nothing, meter)  # together, after which their numbers are read
    return {each: hidden.numbers(some)[0] for (each, hidden), some in zip(hiding.items(), nothing, strict=True)}


def _judged(field: ExtractedField, place: Place | None, before: Floats, after: Floats | None) -> FieldSource:
    """A value with what hiding its place and all copies does."""
    if place is None or after is None:
        hidden = place is not None  # but the template rewrote the document
        verdict: str = INVENTED if field.says_something and not hidden else UNCLEAR
        return FieldSource(field.leaf, place, float("nan"), verdict)
    tokens = list(field.tokens)
    verdict = UNCLEAR
    if falls_without(field.words, before, after):
        verdict = FROM_DOCUMENTS
    elif field.written and after[tokens].mean() >= LIKELY:  # what is unlikely in any case does not stay
        verdict = INVENTED
    return FieldSource(field.leaf, place, float((before - after)[tokens].sum()), verdict)


def fields_frame(sources: Sequence[FieldSource]) -> "pandas.DataFrame":
    """See `Answer.fields`."""
    rows = []
    for each in sources:
        document, (start, end) = each.place or (None, (None, None))
        rows.append((each.leaf.path, each.leaf.value, document, start, end, each.drop, each.verdict))
    frame = pandas.DataFrame(rows, columns=list(COLUMNS), dtype=object)  # a value of None stays one
    return frame.astype(dict.fromkeys(("document", "start", "end"), "Int64") | {"drop": float})
