"""Draw cases of the made-up world of `demo/notes`: a few notes, and questions with their answers and sources."""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tests.training import notes_relations as relations
from tests.training.notes_relations import CHAINS, CLUTTER, POOLS, RELATIONS

TRIES = 300  # draws that may fail before a case takes fewer facts


class Fact(NamedTuple):
    """A value for a key in one of the world's relations."""

    relation: str
    key: str
    value: str


class Question(NamedTuple):
    """A question about notes, its answer, the values in the answer and the numbers of the notes that it needs."""

    kind: str  # "one", "two" (a chain), "half" (a chain whose second note is missing) or "none"
    text: str
    answer: str
    values: tuple[str, ...] = ()
    source: tuple[int, ...] = ()


class Case(NamedTuple):
    """Notes and questions about them."""

    notes: list[str]
    questions: list[Question]


@dataclass(frozen=True)
class Level:
    """How varied the cases are: the numbers of words, statements and questions used, and the shares of what is hard."""

    relations: tuple[str, ...] = tuple(RELATIONS)
    words: int = 400
    statements: int = 9
    questions: int = 9
    notes: tuple[int, int] = (2, 4)
    turns: int = 4
    alike: float = 0.3  # cases of one relation, or of one kind of chain
    chains: float = 0.0
    absent: float = 0.0
    clutter: float = 0.0
    noise: float = 0.0  # cases whose questions lose some words
    paraphrase: bool = False  # only questions that are never trained on


def held_out(fact: Fact) -> bool:
    """Whether a fact belongs to the tenth of all facts that is never trained on."""
    return zlib.crc32("|".join(fact).encode()) % 10 == 0


@dataclass
class Facts:
    """Facts of one case: no two share a relation and key, or a value."""

    rng: Random
    level: Level
    unseen: bool
    facts: list[Fact] = field(default_factory=list)

    def add(self, relation: str, key: str | None = None) -> Fact | None:
        """Draw a fact and keep it, unless it would clash with another."""
        kind = RELATIONS[relation]
        fact = Fact(relation, key or self.word(kind.key), self.word(kind.value))
        if fact.key == fact.value or held_out(fact) != self.unseen or self.value(relation, fact.key):
            return None
        if any(fact.value == other.value for other in self.facts):
            return None
        self.facts.append(fact)
        return fact

    def word(self, pool: str) -> str:
        return self.rng.choice(POOLS[pool][: self.level.words])

    def value(self, relation: str, key: str) -> str | None:
        return next((fact.value for fact in self.facts if fact[:2] == (relation, key)), None)

    def add_chain(self, first: str, second: str) -> None:
        """Add two facts, the first one's value being the second one's key."""
        start = self.add(first)
        for _ in range(10 if start else 0):
            if start and self.add(second, start.value):
                return

    def add_related(self) -> None:
        """Add another fact about a name that is already there."""
        name = self.rng.choice(self.facts)[self.rng.randint(1, 2)]
        fitting = [relation for relation in self.level.relations if name in POOLS[RELATIONS[relation].key]]
        if fitting:
            self.add(self.rng.choice(fitting), name)


def draw_facts(rng: Random, level: Level, count: int, unseen: bool) -> list[Fact]:
    """About `count` facts, in random order: alike or mixed, of chains or not."""
    facts = Facts(rng, level, unseen)
    alike, chained = rng.random() < level.alike, rng.random() < level.chains
    few = rng.sample(level.relations, 1 if alike else rng.randint(2, 4))
    chains = rng.sample(list(CHAINS), 1 if alike else 3)
    for _ in range(TRIES):
        if len(facts.facts) >= count:
            break
        if chained and count - len(facts.facts) >= 2 and rng.random() < 0.5:
            facts.add_chain(*rng.choice(chains))
        elif not alike and facts.facts and rng.random() < 0.3:
            facts.add_related()
        elif not (alike and chained):
            facts.add(rng.choice(few))
        else:
            facts.add(rng.choice(chains[0]))
    rng.shuffle(facts.facts)
    return facts.facts


def note(rng: Random, sentence: str) -> str:
    """A sentence with a sender, an opening and a closing, each of which may be empty."""
    slots = {pool: rng.choice(POOLS[pool]) for pool in ("person", "day", "time")}
    sender, opening, closing = (rng.choice(CLUTTER[part]) for part in ("senders", "openings", "closings"))
    return sender.format(**slots) + opening + sentence + closing


def state(rng: Random, level: Level, facts: Sequence[Fact]) -> tuple[list[str], dict[Fact, int]]:
    """Notes that state the facts, and the number of each fact's note."""
    notes: list[str] = []
    numbers = {}
    cluttered = rng.random() < level.clutter
    for fact in facts:
        if cluttered and rng.random() < 0.12:
            notes.append(note(rng, rng.choice(CLUTTER["chatter"])))
        statement = rng.choice(RELATIONS[fact.relation].statements[: level.statements])
        sentence = statement.format(k=fact.key, v=fact.value, x=rng.choice(POOLS["pet"]))
        numbers[fact] = len(notes)
        notes.append(note(rng, sentence) if cluttered else sentence)
    return notes, numbers


@dataclass
class Asker:
    """Draws questions about the facts of one case."""

    rng: Random
    level: Level
    numbers: dict[Fact, int]

    def __post_init__(self) -> None:
        self.values = {fact[:2]: fact for fact in self.numbers}

    def phrase(self, phrases: Sequence[str], unseen: int, key: str) -> str:
        usable = phrases[-unseen:] if self.level.paraphrase else phrases[:-unseen][: self.level.questions]
        return self.rng.choice(usable).format(k=key)

    def single(self, relation: str, key: str) -> Question:
        """A question about one fact, which the notes may lack."""
        kind = RELATIONS[relation]
        text = self.phrase(kind.questions, relations.UNSEEN_QUESTIONS, key)
        fact = self.values.get((relation, key))
        if not fact:
            return Question("none", text, relations.ABSENT)
        return Question("one", text, kind.answer.format(k=key, v=fact.value), (fact.value,), (self.numbers[fact],))

    def chain(self, first: str, second: str, key: str) -> Question:
        """A question about two facts, whose answer names the step between."""
        text = self.phrase(CHAINS[first, second], relations.UNSEEN_CHAIN_QUESTIONS, key)
        start = self.values.get((first, key))
        if not start:
            return Question("none", text, relations.ABSENT)
        end = self.values.get((second, start.value))
        value = end.value if end else relations.MISSING[RELATIONS[second].value]
        step = RELATIONS[first].answer.format(k=key, v=start.value).rstrip(".")
        rest = RELATIONS[second].answer.format(k=start.value, v=value)
        answer = f"{step}, and {'the' + rest[3:] if rest.startswith('The ') else rest}"
        source = tuple(self.numbers[fact] for fact in (start, end) if fact)
        return Question("two" if end else "half", text, answer, (start.value, value), source)

    def absent(self) -> Question:
        """A question whose fact, or first fact, the notes lack."""
        while True:
            fact = self.rng.choice(list(self.numbers))
            name = self.rng.choice(fact[1:])
            if self.level.chains and self.rng.random() < 0.2:
                first, second = self.rng.choice(list(CHAINS))
                question = self.chain(first, second, self.entity(first, name))
            else:
                relation = fact.relation if self.rng.random() < 0.4 else self.rng.choice(self.level.relations)
                question = self.single(relation, self.entity(relation, name))
            if question.kind == "none":
                return question

    def entity(self, relation: str, name: str) -> str:
        """A name of the notes if it can be a key of the relation, otherwise any key."""
        pool = POOLS[RELATIONS[relation].key][: self.level.words]
        return name if name in pool and self.rng.random() < 0.7 else self.rng.choice(pool)

    def questions(self, count: int) -> list[Question]:
        """Different questions, answerable or not by the shares of the level."""
        singles = [self.single(*fact[:2]) for fact in self.numbers]
        chains = [
            self.chain(*chain, fact.key) for fact in self.numbers for chain in CHAINS if chain[0] == fact.relation
        ]
        twos = [question for question in chains if question.kind == "two"]
        halves = [question for question in chains if question.kind == "half"]
        for some in (singles, twos, halves):
            self.rng.shuffle(some)
        drawn = []
        for _ in range(count):
            chance = self.rng.random()
            if chance < self.level.absent:
                use_half = halves and self.level.chains and self.rng.random() < 0.4
                drawn.append(halves.pop() if use_half else self.absent())
            elif twos and self.level.chains and (self.rng.random() < 0.7 or not singles):
                drawn.append(twos.pop())
            elif singles:
                drawn.append(singles.pop())
        return drawn


def draw_case(rng: Random, level: Level, count: int, unseen: bool = False) -> Case:
    """Notes on about `count` facts of the world, with questions.

    >>> case = draw_case(Random(0), Level(), 2)
    >>> len(case.notes), case.questions[0].kind
    (2, 'one')
    """
    while True:
        facts = draw_facts(rng, level, count, unseen)
        notes, numbers = state(rng, level, facts)
        questions = Asker(rng, level, numbers).questions(level.turns) if facts else []
        if questions:
            return Case(notes, questions)


def phrases() -> list[str]:
    """Every text of the world with its slots, for the vocabulary."""
    texts = [relations.ABSENT, ", and the", *(f" {text}" for text in relations.MISSING.values())]
    texts += ["Notes:\n- x", "Question: x\nAnswer: x"]
    for relation in RELATIONS.values():
        texts += [*relation.statements, *relation.questions, relation.answer]
    for further in (*CHAINS.values(), *CLUTTER.values()):
        texts += further
    return [re.sub(r"\{\w+\}", "x", text) for text in texts]
