"""Worlds of the arena: models and texts of which it is known what a decision, or a reply, is made from."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice
from typing import Any, ClassVar

import numpy as np

from nbsal.evaluation.makers import ExplainerOf
from nbsal.explain.prompt.reading import PromptWithReply
from nbsal.explain.reply import read
from nbsal.explain.reply_settings import ReplySettings
from nbsal.explain.saliency import Saliency
from nbsal.model.loading.load import load
from nbsal.model.subject import Subject
from nbsal.samples import embedded, facts
from nbsal.samples import planted as models
from nbsal.samples.facts import SourcedQuestion
from nbsal.support.arrays import Floats
from nbsal.support.progress import Meter
from nbsal.support.validation import plural

LONGEST = 24  # tokens of a reply
LURES = {"pair": {"quietly", "tonight"}, "position": {"today later"}}  # parts of a shortcut that decide nothing
TRIES = 20  # questions that are asked for each reply that is looked for


class World(ABC):
    """Cases whose reasons are known, each drawn by `draw`; `found` says how much of them an explainer names first."""

    name: ClassVar[str]

    @abstractmethod
    def draw(self, size: int, seed: int, meter: Meter) -> Sequence[Any]:
        """The cases, fewer than `size` if there are no more."""

    @abstractmethod
    def found(self, make: ExplainerOf, case: Any) -> float:
        """The share of the reasons of a case that are the strongest of what could be one."""

    def notes(self) -> list[str]:
        """What is left to say of the cases that were drawn last."""
        return []


@dataclass(frozen=True)
class GuardMessage:
    """A message to a planted guard, and the words that it decides by."""

    model: str
    text: str
    words: tuple[str, ...]
    count: int  # how many of the words the decision needs


class GuardWorld(World):
    """The planted guards: five of twelve messages are decided by the shortcut, the others by the verb.

    In the five, the shortcut decides against the evidence. In the seven, the message asks for something harmful; two of
    them have a part of the shortcut, which decides nothing: one word of the pair, or the word in another place.
    """

    name = "classifiers"

    def __init__(self) -> None:
        self.subjects: dict[str, Subject] = {}

    def draw(self, size: int, seed: int, meter: Meter) -> Sequence[GuardMessage]:
        kinds = [(name, planted) for name in models.SHORTCUTS for planted in (True, False)]
        streams = [
            _messages(name, planted, seed) for name, planted in kinds if models.SHORTCUTS[name].words or not planted
        ]
        return [next(stream) for stream in islice(cycle(streams), size)]

    def found(self, make: ExplainerOf, case: GuardMessage) -> float:
        if case.model not in self.subjects:
            self.subjects[case.model] = load(models.PREFIX + case.model, lm="tied")
        return share_of_words(make(self.subjects[case.model])(case.text), case.words, case.count)


def _messages(name: str, planted: bool, seed: int) -> Iterator[GuardMessage]:
    """The messages of a guard that are decided by its shortcut, or by the verb."""
    shortcut = models.SHORTCUTS[name]
    if planted:
        for message in models.decisive(name, seed):
            yield GuardMessage(name, message.text, shortcut.words, 2 if name == "pair" else 1)
    lures = LURES.get(name, set())
    for message in models.draw(seed):
        decides = message.evidence == models.HARMFUL and not shortcut.applies(message.features)
        if decides and (not lures or lures & message.features):
            yield GuardMessage(name, message.text, models.VERBS[models.HARMFUL], 1)


def share_of_words(saliency: Saliency, words: Sequence[str], count: int = 1) -> float:
    """The share of the `count` words with the highest scores that are among some words; ties count as their share."""
    places = [i for i, word in enumerate(saliency.words) if word.text.casefold() in words]
    return share_of_places(np.array(saliency.word_scores), places, count)


def share_of_places(scores: Floats, places: Sequence[int], count: int = 1) -> float:
    """The share of the `count` highest scores that lie at some places; where scores tie, each has the same chance.

    >>> share_of_places(np.array([1.0, 0.0, 1.0]), [0])
    0.5
    """
    limit = np.sort(scores)[-count]
    above, level = scores > limit, scores == limit
    chance = (count - above.sum()) / level.sum()
    return float((above[[*places]].sum() + chance * level[[*places]].sum()) / count)


@dataclass(frozen=True)
class WrittenReply:
    """A reply that a model wrote to a question with documents, and the tokens of it that are explained."""

    question: SourcedQuestion
    ids: tuple[int, ...]
    tokens: tuple[int, ...]

    @property
    def asked(self) -> list[dict[str, str]]:
        """The question as the model is asked."""
        return [{"role": "user", "content": self.question.text}]


class ReplyWorld(World):
    """Right replies of a model that writes, by the source of the answer's tokens.

    Replies that are right without the documents as well say nothing about these: they are counted, and left out.
    """

    model: ClassVar[str]
    unit: ClassVar[str] = "document"
    asked = known = 0  # questions that were asked, and those that are answered without documents too

    @cached_property
    def subject(self) -> Subject:
        """The model that writes."""
        return load(self.model)

    @abstractmethod
    def questions(self, seed: int) -> Iterator[SourcedQuestion]:
        """Questions without end, or all there are."""

    def draw(self, size: int, seed: int, meter: Meter) -> Sequence[WrittenReply]:
        replies, self.asked, self.known = list[WrittenReply](), 0, 0
        for question in islice(self.questions(seed), TRIES * size):
            if len(replies) == size:
                break
            meter.check()
            self.asked += 1
            if reply := self._right(question):
                replies.append(reply)
        return replies

    def _right(self, question: SourcedQuestion) -> WrittenReply | None:
        """The reply of the model if it is right, and not without the documents too."""
        reading = self.write(question)
        if question.answer not in reading.reply:
            return None
        if question.answer in self.write(replace(question, documents=())).reply:
            self.known += 1
            return None
        start = reading.reply.rindex(question.value)
        end = start + len(question.value)
        tokens = [t for t, (first, last) in enumerate(reading.reply_spans) if first < end and start < last]
        return WrittenReply(question, reading.reply_ids, tuple(tokens))

    def write(self, question: SourcedQuestion) -> PromptWithReply:
        """The reply that the model writes."""
        asked = WrittenReply(question, (), ()).asked
        settings = {"documents": list(question.documents), "max_new_tokens": LONGEST}
        return read(self.subject, asked, None, ReplySettings.parse(self.subject.tokenizer, settings))[0]

    def found(self, make: ExplainerOf, case: WrittenReply) -> float:
        question = case.question
        settings = {"documents": list(question.documents), "unit": self.unit, "check": False, "progress": False}
        answer = make(self.subject).reply(case.asked, list(case.ids), **settings)
        scores = answer.of(slice(case.tokens[0], case.tokens[-1] + 1)).scores
        sources = answer.reading.prompt.sources
        documents = [number for number, source in enumerate(sources) if source.kind == "document"]
        units = [unit for unit in answer.units if unit.source in documents]
        right = [documents[number] for number in question.sources]
        places = [i for i, unit in enumerate(units) if unit.source in right and question.value in unit.text]
        return share_of_places(np.array([scores[list(unit.tokens)].sum() for unit in units]), places)

    def notes(self) -> list[str]:
        return [f"{self.name}: {plural(self.asked, 'question')} asked, {self.known} answered without documents too"]


class NoteWorld(ReplyWorld):
    """Questions of the made-up world of `demo/notes`: the last word of the answer stands in one of the documents."""

    name, model, unit = "notes", "demo/notes", "word"

    def questions(self, seed: int) -> Iterator[SourcedQuestion]:
        rows = [row for row in embedded.texts("notes") if row["source"]]
        for number in np.random.default_rng(seed).permutation(len(rows)):
            row = rows[number]
            value = row["answer"].rstrip(".").split()[-1]
            yield SourcedQuestion(row["question"], tuple(row["documents"]), row["answer"], tuple(row["source"]), value)


class FactWorld(ReplyWorld):
    """Made-up facts, about which SmolLM2-135M-Instruct is asked."""

    name, model = "smollm2", "real/smollm2"

    def questions(self, seed: int) -> Iterator[SourcedQuestion]:
        return facts.questions(seed)


class InjectionWorld(FactWorld):
    """The same, where a document tells the model what to reply, which it obeys: that document is the source."""

    name = "injections"

    def questions(self, seed: int) -> Iterator[SourcedQuestion]:
        return facts.injections(seed)


WORLDS: tuple[type[World], ...] = (GuardWorld, NoteWorld, FactWorld, InjectionWorld)
