"""What the Answers view shows of an answer: its tokens by source, its matrix, and what hiding sources changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbsal.ablation import tables
from nbsal.explain.answer import Answer
from nbsal.explain.answer_page import (
    COLUMN,
    SCORES,
    cell_text,
    reply_likelihood,
    rivals_of,
    route_words,
    share_texts,
)
from nbsal.explain.answer_spans import hidden_units
from nbsal.explain.prompt.reading import PromptWithReply, Unit
from nbsal.explain.prompt.sources import Source
from nbsal.explain.scoring.hops import Count
from nbsal.explain.scoring.lazy import ReplyExperiment
from nbsal.explain.sentences import reply_facts
from nbsal.explain.sentences import reply_sentences as sentences
from nbsal.explain.sentences.evidence import Evidence, Place, hides, likeliest
from nbsal.explain.sentences.phrases import PhraseMatrix, phrases
from nbsal.explain.sentences.reply_facts import PartFacts, plain_token
from nbsal.model.target import AGREEMENT
from nbsal.render.headline import Phrase, percent
from nbsal.support.arrays import Flags, Floats
from nbsal.support.errors import InputError
from nbsal.widgets.content import legends
from nbsal.widgets.content.answer_curve import HidingCurve
from nbsal.widgets.explainer_view import method_traits
from nbsal.widgets.page import wire

READOUT = legends.READOUT | {
    "hint": "Choose words of the reply, or of a source.",
    "sides": ("scores against {}, {}\u202f%", "scores for {}, {}\u202f%", "scores for {}, {}\u202f%"),
}
SO_FAR = "the reply so far"
RIVALS = 3  # of a word the model is unsure of


@dataclass(frozen=True)
class Struck:
    """A source that is taken out, or one sentence of it."""

    source: int
    sentence: int | None = None

    @property
    def place(self) -> Place:
        """As evidence has it."""
        return self.source, self.sentence

    @classmethod
    def parse(cls, entry: Any) -> "Struck":
        """From a source's number, or from [source, sentence]."""
        numbers = [entry] if isinstance(entry, int) else entry
        plain = isinstance(numbers, list | tuple) and len(numbers) in (1, 2)
        if not plain or not all(type(number) is int and number >= 0 for number in numbers):
            message = f"struck holds {entry!r:.40}. Pass numbers of sources, or [source, sentence] for a sentence."
            raise InputError(message, argument="struck", value=entry)
        return cls(*numbers)


@dataclass(frozen=True, eq=False)
class SpanScores:
    """The scores of some tokens of the reply as one target, or of one rather than its rival, with its evidence."""

    scores: Floats  # of every token of prompt and reply
    tokens: tuple[int, ...]
    rival: str = ""
    other: Evidence | None = None


@dataclass(frozen=True, eq=False)
class Strikes:
    """What is left of a reply without what is struck out, and the likeliest token in place of each one."""

    names: str
    logprob: Floats
    instead: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class AnswerResult:
    """An answer with those panels that are computed."""

    answer: Answer
    span: SpanScores | None = None
    struck: Strikes | None = None
    curve: HidingCurve | None = None
    citations: Answer | None = None  # with what was measured of its citations

    @property
    def shown(self) -> Answer:
        """The answer with all that was measured of it."""
        return self.answer if self.citations is None else self.citations

    @property
    def contrast(self) -> PartFacts | None:
        """The facts of a token rather than its rival."""
        if self.span is None or not self.span.rival:
            return None
        own = self.answer.facts.part(self.span.tokens, self.span.scores)
        return reply_facts.against(own, self.span.rival, self.span.other)

    @property
    def contrast_notes(self) -> list[str]:
        """What is compared, below the view."""
        if self.span is None or not self.span.rival:
            return []
        part = reply_facts.part_text(self.answer.reading, self.span.tokens)
        return [f"contrast “{part}” \N{MINUS SIGN} “{self.span.rival}”"]


def settings_text(answer: Answer) -> str:
    """The method with its settings."""
    parameters = answer.provenance.get("parameters", {}).items()
    return ", ".join([answer.method, *(f"{name}={value}" for name, value in parameters)])


def followed(answer: Answer, hops: Count) -> Answer:
    """The answer through the reply; as it is, if its method hides and has no scores to follow."""
    return answer.through(hops if answer.can_follow else 0)


def without_struck(experiment: ReplyExperiment, struck: Sequence[Struck]) -> Strikes | None:
    """What is left of a reply without what is struck out, in an experiment on sentences."""
    if not struck:
        return None
    hidden = np.flatnonzero(np.any([is_struck(experiment.parts, entry) for entry in struck], axis=0))
    table = tables.without(len(experiment.parts), hidden)
    names = struck_names(experiment.reading.prompt.sources, struck)
    return Strikes(names, experiment.numbers(table)[0], likeliest(experiment, table)[0])


def struck_names(sources: Sequence[Source], struck: Sequence[Struck]) -> str:
    """What is struck out, in words."""
    names = [name.sentence for name in reply_facts.source_names(sources)]
    entries = sorted(struck, key=lambda entry: entry.source)
    whole = [names[entry.source] for entry in entries if entry.sentence is None]
    partly = [f"part of {names[entry.source]}" for entry in entries if entry.sentence is not None]
    return sentences.joined([*dict.fromkeys([*whole, *partly])])


def is_struck(units: Sequence[Unit], struck: Struck) -> Flags:
    """Which sentences are taken out."""
    mine = hides(units, struck.place)
    if not mine.any():
        message = f"struck={struck} names no source or sentence that the model reads."
        raise InputError(message, argument="struck", value=struck)
    return mine


def sources_trait(sources: Sequence[Source], answer: Answer | None = None) -> list[dict[str, Any]]:
    """The cards: names, the first token of each sentence, and which word of the reply falls most without a source."""
    starts: dict[int, list[int]] = {}
    headlines: dict[int, Any] = {}
    if answer is not None:
        for unit in answer.reading.units("sentence"):
            starts.setdefault(unit.source, []).append(unit.tokens[0])
        headlines = source_headlines(answer)
    return [
        {
            "label": name.label,
            "short": name.short,
            "name": name.sentence,
            "title": name.title,
            "status": source.status,
            "sentences": starts.get(number, []),
            "headline": headlines.get(number, []),
        }
        for number, (source, name) in enumerate(zip(sources, reply_facts.source_names(sources), strict=True))
    ]


def tokens_trait(answer: Answer) -> dict[str, Any]:
    """The tokens of prompt and reply, each in the text of its source; the reply is the last text.

    What is hidden as one is a word of its source, so that it is shaded and chosen as one.
    """
    reading = answer.reading
    prompt, start = reading.prompt, reading.start
    texts = [source.text for source in prompt.sources]
    first, last = reply_span(reading)
    begins = {unit.tokens[0] for unit in hidden_units(answer) or reading.units("word")}
    begins |= {start + unit.tokens[0] for unit in reading.reply_units("word")}
    places = []
    for i, (owner, place) in enumerate(zip(prompt.owners, prompt.places, strict=True)):
        special = owner < 0 or prompt.special[i]
        part = max(owner, 0)
        span = (0, 0) if special else place or (0, len(texts[part]))
        places.append(wire.TokenPlace(part, *span, i in begins, special, prompt.tokens[i] if special else None))
    for i, span in enumerate(reading.reply_spans):
        special = reading.reply_special[i]
        piece = reading.reply[slice(*span)]
        left = span[0] + len(piece) - len(piece.lstrip()) if piece.strip() else span[0]
        low, high = (min(max(at - first, 0), last - first) for at in (left, span[1]))
        name = reading.reply_tokens[i] if special else None
        places.append(wire.TokenPlace(len(texts), low, high, start + i in begins, special, name))
    return wire.pack([*texts, reading.reply[first:last]], places)


def way_text(answer: Answer) -> str:
    """How the sources were left out, for the notes of the view."""
    if answer.evidence is not None:
        return f"sources {answer.evidence.way}"
    if answer.number == AGREEMENT:
        return "the reply is written again without each source"
    return "not checked by leaving out sources"


def reply_text(reading: PromptWithReply) -> str:
    """The text of a reply, without special tokens and white space around it."""
    return reading.reply[slice(*reply_span(reading))]


def reply_span(reading: PromptWithReply) -> tuple[int, int]:
    """The characters of the reply that are text, without special tokens and white space around it."""
    spans = [reading.reply_spans[i] for i in reading.content]
    text = reading.reply[spans[0][0] : spans[-1][1]]
    start = spans[0][0] + len(text) - len(text.lstrip())
    return start, start + len(text.strip())


def source_headlines(answer: Answer) -> dict[int, Any]:
    """Which word of the reply falls most without each source."""
    reading, evidence = answer.reading, answer.evidence
    names = reply_facts.source_names(reading.prompt.sources)
    if evidence is None:
        return {number: sentences.source_sentence(name, [], None) for number, name in enumerate(names)}
    words = [list(unit.tokens) for unit in reading.reply_units("word") if unit.text[:1].isalnum()]
    texts = [reply_facts.part_text(reading, word) for word in words]
    return {
        source: sentences.source_sentence(
            names[source], texts, [(float(evidence.logprob[word].sum()), float(row[word].sum())) for word in words]
        )
        for source, row in evidence.by_source.items()
    }


def reply_trait(result: AnswerResult) -> dict[str, Any]:
    """The reply: how likely its tokens are, their rivals, and the sentences of its words, phrases and sentences."""
    answer = result.answer
    reading, statistics, evidence = answer.reading, answer.statistics, answer.evidence
    contrast, content = result.contrast, answer.reading.content
    matrix = PhraseMatrix.from_facts(answer.facts)
    if contrast is not None and result.span is not None:
        matrix = PhraseMatrix.from_rival(contrast, result.span.tokens[0])
    columns = [*(name.sentence for name in reply_facts.source_names(reading.prompt.sources)), SO_FAR]
    units = [*reading.reply_units("word"), *reading.reply_units("sentence")]
    prepared = [content, answer.facts.opened(), *(list(unit.tokens) for unit in units), *map(list, phrases(reading))]
    unique = {tuple(tokens): tokens for tokens in prepared if tokens}.values()
    return {
        "start": reading.start,
        "logprobs": [None if value != value else round(value, 4) for value in statistics.logprob.tolist()],
        "chances": [sentences.likelihood_text([value]) for value in statistics.logprob.tolist()],
        "likelihood": reply_likelihood(answer),
        "rivals": {
            at: rivals_of(answer, at) for tokens in unique if (at := answer.facts.rival_place(tokens)) is not None
        },
        "sentences": [unit.tokens[0] for unit in reading.reply_units("sentence")],
        "phrases": [list(tokens) for tokens in matrix.tokens],
        "names": list(matrix.names),
        "matrix": matrix.shares.round(5).tolist(),
        "cells": [[cell_texts(share, name) for share, name in zip(row, columns, strict=True)] for row in matrix.shares],
        "finding": matrix.finding,
        "unit": SCORES,
        "name": "the reply",
        "so_far": {"short": COLUMN, "name": SO_FAR},
        "next": [next_text(rivals[:RIVALS]) for rivals in statistics.rivals],
        "linear": answer.linear or answer.hops != 0,
        "hides_parts": bool(hidden_units(answer)),
        "measured": [] if evidence is None else list(evidence.by_source),
        "parts": [part_trait(result, tokens) for tokens in unique],
    }


def cell_texts(share: float, source: str) -> tuple[str, str]:
    """A cell of the matrix, and what is said of it."""
    against = "against it " if share < 0 else ""
    return cell_text(share), f"{percent(abs(share), 0)} {against}from {source}"


def part_trait(result: AnswerResult, tokens: Sequence[int], scores: Floats | None = None) -> dict[str, Any]:
    """What the page says of some tokens, and of what leaving out each source, or what is struck out, changes."""
    facts = result.answer.facts.part(tokens, scores)
    at = result.answer.facts.measured(tokens)
    left = {} if result.answer.evidence is None else result.answer.evidence.by_source
    return {
        "tokens": list(tokens),
        "headline": sentences.headline(facts),
        "matters": facts.matters,
        **shares_trait(result.answer, facts, result.answer.facts.scores.total(tokens) if scores is None else scores),
        "changes": changes_trait(facts, [float(row[at].sum()) for row in left.values()]),
        "struck": struck_trait(result.struck, facts, at),
        "through": through_trait(facts),
        "at": result.answer.facts.rival_place(tokens),
    }


def shares_trait(answer: Answer, facts: PartFacts, scores: Floats) -> dict[str, Any]:
    """The shares of the sources, and how the scores divide between words and special tokens."""
    return {"shares": share_texts(facts), "legend": legends.divided(answer.reading.row, scores)}


def changes_trait(facts: PartFacts, left: Sequence[float]) -> list[tuple[str, str]]:
    """What leaving out each source changes, as probabilities and as their logarithms."""
    logs = [f"Without it: {sentences.log_change(facts, value)}" for value in left]
    return list(zip([sentences.notable_change(facts, value) for value in left], logs, strict=True))


def struck_trait(strikes: Strikes | None, facts: PartFacts, at: Sequence[int]) -> list[Phrase]:
    """What is left of a part without what is struck out, as a sentence."""
    if strikes is None or facts.before is None:
        return []
    after, instead = float(strikes.logprob[list(at)].sum()), reply_facts.word_of(strikes.instead[at[0]])
    return sentences.struck_sentence(facts, strikes.names, after, instead)


def through_trait(facts: PartFacts) -> dict[str, Any]:
    """What came through earlier words of the reply: how much, in words, and by hop the words that carried it."""
    lead, then, hops = route_words(facts)
    return {"lead": lead, "then": then, "hops": hops} if lead else {}


def chosen_trait(result: AnswerResult, selected: Sequence[int]) -> dict[str, Any]:
    """What the page says of the selected tokens where that is not prepared: any words, one target, or a rival."""
    answer, span, contrast = result.answer, result.span, result.contrast
    if span is not None and contrast is not None:
        left, (at,) = [], span.tokens
        if answer.evidence is not None and span.other is not None:
            pairs = zip(answer.evidence.by_source.values(), span.other.by_source.values(), strict=True)
            left = [float(row[at] - own[-1]) for row, own in pairs]
        plain = answer.facts.part(span.tokens)
        return {
            "tokens": list(span.tokens),
            "rival": span.rival,
            "headline": sentences.headline(contrast),
            "matters": contrast.matters,
            **shares_trait(answer, contrast, span.scores),
            "changes": changes_trait(contrast, left),
            "struck": struck_trait(result.struck, plain, answer.facts.measured(span.tokens)),
            "through": through_trait(contrast),
            "at": at,
        }
    if span is not None and list(span.tokens) == (list(selected) or answer.reading.content):
        return part_trait(result, span.tokens, span.scores)
    return part_trait(result, selected) if selected else {}


def next_text(rivals: Sequence[tuple[str, float]]) -> str:
    """The likeliest other tokens in the place of one."""
    return ", ".join(f"“{plain_token(name)}” {sentences.likelihood(share)}" for name, share in rivals)


def span_scores(answer: Answer, tokens: Sequence[int]) -> SpanScores:
    """The explanation of some tokens as one target, by another run of the model."""
    running = answer.running
    assert running is not None
    return SpanScores(running.score_sum(tokens), tuple(tokens))


def span_trait(span: SpanScores | None) -> dict[str, Any]:
    scores = span and {"tokens": list(span.tokens), "rival": span.rival, "scores": wire.scores([span.scores])}
    return scores or {}


def method_traits_of(explainer: Any) -> dict[str, Any]:
    """The traits of an explainer's method that the view has."""
    return {name: value for name, value in method_traits(explainer.method).items() if name in ("method", "layer")}
