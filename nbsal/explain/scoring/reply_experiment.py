"""The experiment on a reply: units of its sources are hidden, and the reply's tokens are scored again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nbsal.ablation import tables
from nbsal.ablation.decision import filler_id
from nbsal.ablation.engine import Ablation, Text
from nbsal.ablation.experiment import Experiment
from nbsal.ablation.reply import ReplyText, numbers_of
from nbsal.ablation.served import RewrittenText, ServedText
from nbsal.ablation.texts import REMOVE, TEXT
from nbsal.explain.prompt.prompts import encode, renderer
from nbsal.explain.prompt.reading import Prompt, PromptWithReply, Unit, words
from nbsal.explain.prompt.sources import CALL, Request, Source, Write, cut, rewrite
from nbsal.explain.scoring import served
from nbsal.model.served.queries import Query
from nbsal.model.subject import Subject
from nbsal.model.target import AGREEMENT, DIVERGENCE
from nbsal.model.text.tokens import Span
from nbsal.support.arrays import Flags, Floats
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter


@dataclass(frozen=True, eq=False)
class ReplyExperiment(Experiment):
    """A reply whose sources can be left out, unit by unit; see `ReplyText` for the ways to hide them.

    A model behind a server reads whole prompts only, so "remove" is "text" there.
    """

    reading: PromptWithReply
    parts: tuple[Unit, ...]
    way: str | int

    def numbers(self, subsets: Any, number: str = "logprob", meter: Meter | None = None) -> Floats:
        """A number of every token of the reply for each subset of units, [subset, reply token]."""
        rewrites = isinstance(self.text, RewrittenText)
        if rewrites != (number == AGREEMENT) or (number == DIVERGENCE and not self.text.compares):
            other = hide_units(self.ablation, self.reading, self.parts, self.way, number)
            return other.numbers(subsets, number, meter)
        stored = self.values(subsets, meter)
        values: Floats = stored[:, 0].numpy() if rewrites else numbers_of(stored, number)
        return values

    @property
    def hidden(self) -> str:
        """How units are hidden, for the provenance."""
        if isinstance(self.text, ReplyText):
            return self.text.hidden(self.ablation.leaves_out(self.text))
        return "cut out of the text, which is tokenized anew"

    def prompts(self, subsets: Any) -> list[tuple[int, ...]]:
        """The tokens of the prompt that is written for each subset of units."""
        assert isinstance(self.text, ReplyText) and self.text.write is not None, "others are not written"
        return [tuple(self.text.write(stays)) for stays in self.tokens(subsets)]

    def with_reading(self, reading: PromptWithReply) -> "ReplyExperiment":
        """The same hiding in another reply to the same prompt."""
        return hide_units(self.ablation, reading, self.parts, self.way)

    def replacing(self, write: Write) -> "ReplyExperiment":
        """The same units written again in another text, which is tokenized anew."""
        assert isinstance(self.text, ReplyText), "a server has ways of its own"
        shortened = _Shortened(self.ablation.subject, self.reading.prompt, self.parts, write)
        return replace(self, text=replace(self.text, way=TEXT, write=shortened), way=TEXT)

    def with_units(self, units: Sequence[Unit], way: str | int | None = None) -> "ReplyExperiment":
        """The same hiding of other units, or hiding them in another way."""
        return hide_units(self.ablation, self.reading, units, self.way if way is None else way)

    def cached_drop(self, unit: int) -> Floats | None:
        """By how much each token's log-probability drops without a unit; None if the model was not run on both."""
        subsets = tables.without(len(self.units), [], [unit])
        if isinstance(self.text, RewrittenText) or not self.ablation.holds(self.text, self.tokens(subsets)):
            return None
        drop: Floats = np.subtract(*self.numbers(subsets))
        return drop

    def query(self, subset: Flags) -> Query:
        """What a server is asked for a subset of units."""
        assert isinstance(self.text, ServedText), "other models are run"
        (tokens,) = self.tokens([subset])
        return self.text.query(tokens)


def hide_units(
    ablation: Ablation,
    reading: PromptWithReply,
    units: Sequence[Unit],
    way: str | int = REMOVE,
    number: str | None = None,
) -> ReplyExperiment:
    """The experiment that hides those units in a way, and reads what a number needs beside the log-probability."""
    subject, parts = ablation.subject, tuple(units)
    if (server := served.server_of(subject)) is not None:
        way = served.way(server, way)
    if way == TEXT:
        _check_shortens(reading.prompt, units)
    elif way != REMOVE:
        filler_id(subject, way)  # raises an error if the way is not available
    text = _text(subject, reading, parts, way, number)
    return ReplyExperiment(ablation, text, [unit.tokens for unit in parts], reading, parts, way)


def _text(
    subject: Subject, reading: PromptWithReply, parts: tuple[Unit, ...], way: str | int, number: str | None
) -> Text:
    server, compares = served.server_of(subject), number == DIVERGENCE
    write = _Shortened(subject, reading.prompt, parts) if way == TEXT else None
    if server is None:
        return ReplyText(subject, reading.row, reading.start, reading.prompt.source_size, way, compares, write)
    queries = _Queries(_Shortened(subject, reading.prompt, parts), way, reading.reply_ids)
    if number != AGREEMENT:
        return ServedText(server, reading.row, reading.start, queries, compares)
    reply_words = [(word.text, word.tokens) for word in reading.reply_units("word")]
    return RewrittenText(server, reading.row, reading.start, queries, words=reply_words, split=words)


@dataclass(frozen=True)
class _Shortened:
    """The prompt that a user would send without some of its units, or with what `write` puts in their place."""

    subject: Subject
    prompt: Prompt
    parts: tuple[Unit, ...]
    write: Write = cut

    def __call__(self, stays: Flags) -> tuple[int, ...]:
        """Its tokens, for the tokens of the whole prompt that stay; never none at all."""
        assert self.prompt.origin is not None, "prompts from files have no model"
        _, template, tools, settings = self.prompt.origin
        shorter = self.request(stays)
        chat = shorter.messages is not None
        text = renderer(self.subject, shorter, template, tools, settings)(shorter.texts) if chat else shorter.texts[0]
        ids = encode(self.subject.tokenizer, text, "asked", add_special_tokens=not chat)["input_ids"]
        return tuple(ids) or self.prompt.ids[:1]

    def request(self, stays: Flags) -> Request:
        """What the user asks, without what does not stay; a message that holds documents takes them along."""
        assert self.prompt.origin is not None, "prompts from files have no model"
        spans: dict[int, list[Span]] = {}
        for unit in (unit for unit in self.parts if not stays[list(unit.tokens)].any()):
            spans.setdefault(unit.source, []).append(unit.span)
            for number in {self.prompt.owners[token] for token in unit.tokens} - {unit.source}:
                spans.setdefault(number, []).append((0, len(self.prompt.sources[number].text)))
        return rewrite(self.prompt.origin[0], spans, self.write)


@dataclass(frozen=True)
class _Queries:
    """What a server is asked about a reply to the prompt without some of its units."""

    shortened: _Shortened
    way: str | int
    reply_ids: tuple[int, ...]

    def __call__(self, stays: Flags) -> Query:
        subject, prompt = self.shortened.subject, self.shortened.prompt
        server = served.server_of(subject)
        assert server is not None, "other models are run"
        if self.way == TEXT:
            ids = self.shortened(stays)
        else:
            ids = tuple(np.where(stays[: len(prompt.ids)], prompt.ids, filler_id(subject, self.way)).tolist())
        return served.query_of(server, self.shortened.request(stays), ids, self.reply_ids)


def _check_shortens(prompt: Prompt, units: Sequence[Unit]) -> None:
    """Refuse units whose characters are not known, because the template rewrote them."""
    sources = prompt.sources  # a call that the template writes is left out as a whole
    rewritten = next((u for u in units if sources[u.source].status == "rewritten" and not _is_call(sources, u)), None)
    if rewritten is not None:
        message = f'The template rewrote {rewritten.name}, so way="text" cannot cut it out. Use way="remove".'
        raise InputError(message, argument="way", value="text")


def _is_call(sources: Sequence[Source], unit: Unit) -> bool:
    """Whether a unit is a call of a tool, and not a token of it."""
    source = sources[unit.source]
    return source.kind == CALL and unit.text == source.text
