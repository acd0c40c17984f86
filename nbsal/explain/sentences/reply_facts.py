"""The facts of a part of a reply, of which every sentence is made: its scores, and what leaving out sources does."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nbsal.explain.prompt.reading import PromptWithReply
from nbsal.explain.prompt.sources import CALL, Source
from nbsal.explain.prompt.tool_calls import TOOL
from nbsal.explain.scoring.score_matrix import ScoreMatrix
from nbsal.explain.sentences.evidence import (
    LEAST,
    NEAR,
    Evidence,
    Level,
    PartWay,
    Place,
    carriers,
    hides,
    nameable,
    opened,
    places_of,
    spaced_words,
)
from nbsal.explain.sentences.function_words import is_function_word
from nbsal.explain.sentences.hop_words import Route
from nbsal.explain.sentences.outcomes import Effect, Outcome, effects_frame
from nbsal.support.arrays import Floats
from nbsal.support.lazy import pandas

HALVED = float(np.log(2))  # fall from which a part depends on a source: at most half as likely without it
ALSO = 2  # further sources that a sentence names
QUOTED = 48  # characters of a sentence that is named
UNLIKELY = float(np.log(0.01))  # log-probability of a part below which that of one token is said
_WORD = re.compile(r"[\w'’]+")
_NUMBER = re.compile(r" #\d+$")  # behind the name of a token that has the text of another one


@dataclass(frozen=True)
class SourceName:
    """What a source is called: on its card, above a column, and in a sentence; `quote` is a sentence of it."""

    label: str
    short: str
    sentence: str
    title: str = ""
    quote: str = ""

    @property
    def text(self) -> str:
        """The name without the title of a document."""
        return f"“{self.quote}”" if self.quote else self.sentence


@dataclass(frozen=True)
class SourceCandidate:
    """A source, or a sentence of it: the sum of its scores, and what is left of a part of the reply without it."""

    name: SourceName
    is_document: bool
    score: float
    without: float = 0.0  # log-probability, or log-odds against the rival
    instead: str = ""  # the likeliest token in place of the first one
    ways: tuple[PartWay, ...] = ()  # what is left in each way of hiding it


@dataclass(frozen=True)
class PartFacts:
    """The facts of a part of the reply (all of it if `part` is blank), or of its token rather than a rival.

    `shares` are those of the scores of each source and, last, of the reply so far. `before` is the log-probability with
    all sources, and `nothing` that without all documents (or all sources); both are None where nothing was left out.
    They are of `count` tokens. `minor` says that these are function words or punctuation alone.
    """

    part: str
    rival: str
    method: str
    shares: tuple[float, ...]
    candidates: tuple[SourceCandidate, ...]
    before: float | None = None
    nothing: float | None = None
    through: Route | None = None  # if the scores were followed through the reply
    count: int = 1
    minor: bool = False

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each candidate that was left out, and for all documents (or sources) together."""
        effects: list[Effect] = [((), "nothing", Outcome(self.part, self.before or 0.0))]
        effects += [((c.name.text,), "alone", Outcome(c.instead or self.part, c.without)) for c in self.candidates]
        effects += [((w.hidden(c.name.text),), w.name, Outcome("", w.value)) for c in self.candidates for w in c.ways]
        together = tuple(c.name.text for c in self.candidates if c.is_document == self.has_documents)
        return effects_frame([*effects, (together, "together", Outcome("", self.nothing or 0.0))])

    def probability(self, value: float) -> float:
        """The probability of a log-probability of the part: of a token of it on average, if the whole is unlikely.

        Of a token rather than another one, it is that among these two.
        """
        if self.rival:
            return float(1 / (1 + np.exp(-value)))
        return float(np.exp(value / self.count if self.per_token else value))

    @property
    def per_token(self) -> bool:
        """Whether probabilities are those of a token on average, as for a long reply."""
        return self.count > 1 and not self.rival and self.before is not None and self.before < UNLIKELY

    def fall(self, candidate: SourceCandidate) -> float:
        """By how much the log-probability falls without a candidate."""
        return (self.before or 0.0) - candidate.without

    @property
    def checked(self) -> bool:
        """Whether sources were left out."""
        return self.before is not None

    @property
    def has_documents(self) -> bool:
        """Whether any candidate is a document."""
        return any(candidate.is_document for candidate in self.candidates)

    @property
    def change(self) -> float:
        """By how much the log-probability falls without all documents, or all sources."""
        return 0.0 if self.before is None or self.nothing is None else self.before - self.nothing

    @property
    def proposed(self) -> SourceCandidate | None:
        """The candidate with the largest score above 0."""
        best = max(self.candidates, key=lambda candidate: candidate.score, default=None)
        return best if best is not None and best.score > 0 else None

    @property
    def costliest(self) -> SourceCandidate:
        """The candidate without which the part falls most."""
        return max(self.candidates, key=self.fall)

    @property
    def together(self) -> bool:
        """Whether the part needs the documents, but any of them will do; or, without documents, its sources."""
        documents = [self.fall(candidate) for candidate in self.candidates if candidate.is_document]
        if not documents:
            return self.change >= HALVED and len(self.candidates) > 1 and self.fall(self.costliest) < LEAST
        joint = self.change >= max(HALVED, NEAR * self.fall(self.costliest))
        return joint and max(documents) < NEAR * self.change

    @property
    def noun(self) -> str:
        """What the candidates are called together."""
        return "documents" if self.has_documents else "sources"

    @property
    def decisive(self) -> SourceCandidate | None:
        """What the part depends on: the document with a fall near the largest one, else what has the largest."""
        most = self.fall(self.costliest) if self.checked else 0.0
        if most < LEAST or self.together:
            return None
        documents = [c for c in self.candidates if c.is_document and self.fall(c) >= max(LEAST, NEAR * most)]
        return max(documents, key=self.fall, default=self.costliest)

    @property
    def matters(self) -> bool:
        """Whether the part depends on any candidate, as far as that was measured."""
        return not self.checked or self.together or self.decisive is not None

    @property
    def also(self) -> list[SourceCandidate]:
        """Further candidates without which the part falls nearly as much."""
        decisive = self.decisive
        if decisive is None:
            return []
        near = [c for c in self.candidates if c is not decisive and self.fall(c) >= NEAR * self.fall(decisive)]
        return sorted(near, key=self.fall, reverse=True)[:ALSO]

    @property
    def agrees(self) -> bool:
        """Whether the scores name what the part depends on."""
        if self.together:
            return self.proposed is not None and self.proposed.is_document == self.has_documents
        return self.decisive is not None and self.proposed in (self.decisive, *self.also)

    @property
    def needs_word(self) -> bool:
        """Whether hiding the word that carried most scores changes the part by far more than hiding any other word."""
        if self.through is None or self.through.without is None or self.before is None:
            return False
        fall = self.before - self.through.without
        return fall >= HALVED and all(self.before - other < NEAR * fall for other in self.through.others)

    @property
    def contradicted(self) -> bool:
        """Whether the scores name another source than the one that the part clearly depends on.

        Every source is left out alone, so the others are the random draws: what the part depends on must change it by
        far more than each of them. Scores always name something: of function words, and where hiding changes little,
        that says nothing.
        """
        if self.agrees or self.minor or self.decisive is None:
            return self.together and not (self.agrees or self.minor)
        fall = self.fall(self.decisive)
        others = [c for c in self.candidates if c is not self.decisive and c not in self.also]
        return fall >= HALVED and all(self.fall(other) < NEAR * fall for other in others)


@dataclass(frozen=True, eq=False)
class ReplyFacts:
    """The facts of every part of a reply: scores, [reply token, token of prompt and reply], and what was measured."""

    reading: PromptWithReply
    scores: ScoreMatrix
    evidence: Evidence | None
    method: str
    route: Callable[[Sequence[int]], Route] | None = None  # to some tokens, if scores were followed through the reply
    level: Level = "sentence"  # of what sentences name where nothing was left out

    def part(self, tokens: Sequence[int] = (), scores: Floats | None = None) -> PartFacts:
        """The facts of some tokens (none: all text); `scores` are theirs, if they are not the sum of their rows."""
        content = self.reading.content
        at = list(tokens) or content
        text = part_text(self.reading, at)
        part, minor = "" if at == content else text, all(map(is_function_word, _WORD.findall(text)))
        # What carried a target of its own, such as a rival, is not known: only rows were followed.
        through = self._route(at) if scores is None else None
        scores = self.scores.total(at) if scores is None else scores
        at = self.measured(at)
        shared = tuple(fractions(self.reading, scores).tolist())
        rows, named, members = self._candidates
        sums = (members @ scores).tolist()
        if self.evidence is None:
            proposed = tuple(replace(each, score=score) for each, score in zip(named, sums, strict=True))
            return PartFacts(part, "", self.method, shared, proposed, through=through, minor=minor)
        without, instead = self.evidence.without[rows][:, at].sum(1).tolist(), [self.evidence.instead[i] for i in rows]
        ways = [self.evidence.in_ways(row, at) for row in rows if self.evidence.ways] or [()] * len(rows)
        measured = tuple(
            replace(each, score=score, without=left, instead=word_of(tokens[at[0]]), ways=in_ways)
            for each, score, left, tokens, in_ways in zip(named, sums, without, instead, ways, strict=True)
        )
        before, nothing = (float(row[at].sum()) for row in (self.evidence.logprob, self.evidence.nothing))
        return PartFacts(part, "", self.method, shared, measured, before, nothing, through, len(at), minor)

    def _route(self, tokens: Sequence[int]) -> Route | None:
        """What carried scores to some tokens, and what the first of these words depends on."""
        route = None if self.route is None else self.route(self.measured(tokens))
        if route is None or not route.words:
            return route
        word = list(route.words[0].tokens)
        decisive = self.part(word, self.scores.total(word)).decisive
        return replace(route, needs="" if decisive is None else decisive.name.text)

    def measured(self, tokens: Sequence[int]) -> list[int]:
        """Some tokens without punctuation at their end, which has no part in their name."""
        at, reading = list(tokens), self.reading
        texts = [reading.reply[slice(*reading.reply_spans[token])] for token in at]
        words = [i for i, text in enumerate(texts) if any(map(str.isalnum, text))]
        return at if at == reading.content or not words else at[: words[-1] + 1]

    def fallen(self, tokens: Sequence[int]) -> dict[int, float]:
        """The log-probability of some tokens without each source, by its number, where that is known."""
        at, evidence = self.measured(tokens), self.evidence
        return {} if evidence is None else {source: float(row[at].sum()) for source, row in evidence.by_source.items()}

    def opened(self) -> list[int]:
        """The tokens of the words that depend most on the sources; none if that is not known, or none do."""
        return [] if self.evidence is None else opened(self.evidence, spaced_words(self.reading))

    def rival_place(self, tokens: Sequence[int]) -> int | None:
        """The token among some that has rivals: of the word that depends most on the sources, if it does."""
        return next((word[0] for word in self._carriers if not set(word).isdisjoint(tokens)), None)

    @cached_property
    def _carriers(self) -> list[Sequence[int]]:
        return [] if self.evidence is None else carriers(self.evidence, spaced_words(self.reading))

    @cached_property
    def _candidates(self) -> tuple[list[int], list[SourceCandidate], Floats]:
        """What a sentence can name: its row in the evidence, and its tokens as 1 in [candidate, token]."""
        names, sources = source_names(self.reading.prompt.sources), self.reading.prompt.sources
        units = self.reading.units(self.level if self.evidence is None else self.evidence.level)
        places: Sequence[Place] = [(source, None) for source in sorted({unit.source for unit in units})]
        if self.evidence is not None:
            places = self.evidence.places
        elif self.level == "word":
            places = places_of(self.reading, units)
        rows = nameable(places)
        named, members = [], np.zeros((len(rows), len(self.reading.row)))
        for i, row in enumerate(rows):
            source, sentence = places[row]
            chosen = [unit for unit, inside in zip(units, hides(units, places[row]), strict=True) if inside]
            name = names[source] if sentence is None else replace(names[source], quote=_quote(chosen[0].text))
            named.append(SourceCandidate(name, sources[source].kind == "document", 0.0))
            members[i, [token for unit in chosen for token in unit.tokens]] = 1.0
        return rows, named, members


def against(facts: PartFacts, rival: str, other: Evidence | None) -> PartFacts:
    """The facts of a token rather than a rival; `other` is measured with the rival at the end of the reply."""
    if other is None or facts.before is None or facts.nothing is None:
        return replace(facts, rival=rival, before=None, nothing=None)
    rows = [other.without[row, -1] for row in other.candidates]
    candidates = tuple(
        replace(candidate, without=candidate.without - float(row), ways=())
        for candidate, row in zip(facts.candidates, rows, strict=True)
    )
    before, nothing = facts.before - float(other.logprob[-1]), facts.nothing - float(other.nothing[-1])
    return replace(facts, rival=rival, candidates=candidates, before=before, nothing=nothing)


def word_of(token: str) -> str:
    """The name of a token as a sentence has it, or "" if it is no word.

    >>> word_of(" Oslo #17"), word_of(".")
    ('Oslo', '')
    """
    word = plain_token(token)
    return word if word[:1].isalnum() else ""


def plain_token(token: str) -> str:
    """The name of a token without the number that tells it from another of the same text."""
    return _NUMBER.sub("", token).strip() or token


def _quote(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= QUOTED else f"{text[:QUOTED].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def source_names(sources: Sequence[Source]) -> list[SourceName]:
    """The names of the sources of a prompt.

    >>> [name.label for name in source_names([Source("message", "Where?", role="user"), Source("document", "Oslo.")])]
    ['You', 'Document 1']
    """
    users = [number for number, source in enumerate(sources) if source.role == "user"]
    documents = [number for number, source in enumerate(sources) if source.kind == "document"]
    calls = [number for number, source in enumerate(sources) if source.kind == CALL]
    results = [number for number, source in enumerate(sources) if source.role == TOOL and source.kind != CALL]
    names = []
    for number, source in enumerate(sources):
        if source.kind == "document":
            place = documents.index(number) + 1
            name = SourceName(f"Document {place}", f"Doc {place}", f"document {place}", source.title)
        elif source.kind == CALL:
            place = calls.index(number) + 1
            name = SourceName(f"Tool call {place}", f"Call {place}", f"tool call {place}", source.title)
        elif source.role == TOOL and source.title:
            place = results.index(number) + 1
            name = SourceName(f"Tool result {place}", f"Result {place}", f"tool result {place}", source.title)
        elif source.kind == "prompt":
            name = SourceName("Prompt", "Prompt", "the prompt")
        elif source.role == "user":
            last = number == users[-1]
            name = SourceName("You", "You", "your question" if last else f"your message {users.index(number) + 1}")
        else:
            role = {"assistant": "model"}.get(source.role, source.role)
            name = SourceName(role.capitalize(), role.capitalize(), f"the {role} message")
        names.append(name)
    return names


def fractions(reading: PromptWithReply, scores: Floats) -> Floats:
    """What each source adds, and last what the reply so far does, as signed shares whose sizes sum to 1.

    `scores` are those of a target, one for each token of prompt and reply. The template's own tokens are left out.
    """
    number_of_reply = len(reading.prompt.sources)
    owners = np.array([*reading.prompt.owners, *[number_of_reply] * len(reading.reply_ids)])[: len(scores)]
    owners[np.array(reading.row.special)[: len(scores)]] = -1
    sums = [float(scores[owners == number].sum()) for number in range(number_of_reply + 1)]
    total = float(np.abs(sums).sum())
    return np.array(sums) / total if total else np.zeros(len(sums))


def part_text(reading: PromptWithReply, tokens: Sequence[int]) -> str:
    """Some tokens of a reply as text, without punctuation at its end; those apart are joined by an ellipsis."""
    runs: list[list[int]] = []
    for token in tokens:
        if runs and token == runs[-1][-1] + 1:
            runs[-1].append(token)
        else:
            runs.append([token])
    spans = reading.reply_spans
    texts = [
        named_part(reading.reply[spans[run[0]][0] : spans[run[-1]][1]]) or reading.reply_tokens[run[0]] for run in runs
    ]
    return " \N{HORIZONTAL ELLIPSIS} ".join(texts)


def named_part(text: str) -> str:
    """A part of a text as a sentence names it, without the punctuation at its end.

    >>> named_part(" in Oslo.")
    'in Oslo'
    """
    return text.strip().rstrip(".,;:!?") or text.strip()
