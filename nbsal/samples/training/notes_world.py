"""Draw cases of the made-up world of `demo/notes`: a few notes, and questions with their answers and sources."""

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from nbsal.samples.training import notes_relations as relations
from nbsal.samples.training.notes_answers import ASIDE, Answer, Value
from nbsal.samples.training.notes_relations import ASIDES, CHAINS, CLUTTER, FURTHER_CHAINS, POOLS, RELATIONS

TRIES = 300  # draws that may fail before a case takes fewer facts
TWICE = 0.3  # of the facts, in cases that state facts twice
MARKED = 0.7  # of the marks of notices, in cases with notices
KINDS = RELATIONS | ASIDES


class Fact(NamedTuple):
    """A value for a key in one of the world's relations."""

    relation: str
    key: str
    value: str


class Question(NamedTuple):
    """A question about notes, its answer, and the values in the answer with the notes that they come from."""

    kind: str  # "none", "half" (a later note of a chain is missing), or what the answer has; see README.md
    text: str
    answer: str
    values: tuple[Value, ...] = ()
    final: int = -1  # the index of the value that was asked for

    @property
    def source(self) -> tuple[int, ...]:
        """The numbers of the notes that words of the answer come from."""
        return tuple(dict.fromkeys(number for value in self.values for number in value.direct))


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
    related: float = 0.3  # facts that are about a name of another, in mixed cases
    further: float = 0.0  # cases with chains that have them of FURTHER_CHAINS
    asides: float = 0.0  # cases with notes that answers mention in a clause
    notices: float = 0.0  # cases with notes that every answer ends with
    twice: float = 0.0  # cases that state some facts twice
    restate: float = 0.0  # questions that ask for a second sentence
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
        kind = KINDS[relation]
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

    def add_chain(self, first: str, *others: str) -> None:
        """Add facts, the value of each being the key of the next."""
        fact = self.add(first)
        for relation in others:
            tries = (self.add(relation, fact.value) for _ in range(10) if fact)
            fact = next((drawn for drawn in tries if drawn), None)

    def add_aside(self) -> None:
        """Add what an answer may mention about a name that is already there."""
        fact = self.rng.choice(self.facts)
        kind = KINDS[fact.relation]
        names = [(pool, name) for pool, name in ((kind.key, fact.key), (kind.value, fact.value)) if pool in ASIDE]
        if names:
            pool, name = self.rng.choice(names)
            self.add(ASIDE[pool], name)

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
    if level.further and rng.random() < level.further:
        chains = rng.sample(list(FURTHER_CHAINS), 1 if alike else 3)
    asides = level.asides and rng.random() < level.asides
    for _ in range(TRIES):
        if len(facts.facts) >= count:
            break
        if asides and facts.facts and rng.random() < 0.4:
            facts.add_aside()
        elif chained and count - len(facts.facts) >= 2 and rng.random() < 0.5:
            facts.add_chain(*rng.choice(chains))
        elif not alike and facts.facts and rng.random() < level.related:
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


def mark(rng: Random, level: Level, facts: Sequence[Fact]) -> dict[Fact, str]:
    """The marks of facts that every answer ends with."""
    facts = [fact for fact in facts if fact.relation in RELATIONS]
    if not level.notices or rng.random() > level.notices:
        return {}
    marks = [mark for mark in relations.NOTICES if rng.random() < MARKED]
    return dict(zip(rng.sample(facts, min(len(facts), len(marks))), marks, strict=False))


def state(
    rng: Random, level: Level, facts: Sequence[Fact], marks: dict[Fact, str]
) -> tuple[list[str], dict[Fact, tuple[int, ...]]]:
    """Notes that state the facts, and the numbers of each fact's notes."""
    notes: list[str] = []
    numbers: dict[Fact, tuple[int, ...]] = {}
    if level.twice and rng.random() < level.twice:
        facts = [*facts, *(fact for fact in facts if fact.relation in RELATIONS and rng.random() < TWICE)]
        facts = rng.sample(facts, len(facts))
    cluttered = rng.random() < level.clutter
    for fact in facts:
        if cluttered and rng.random() < 0.12:
            notes.append(note(rng, rng.choice(CLUTTER["chatter"])))
        statement = rng.choice(KINDS[fact.relation].statements[: level.statements])
        sentence = statement.format(k=fact.key, v=fact.value, x=rng.choice(POOLS["pet"]))
        numbers[fact] = (*numbers.get(fact, ()), len(notes))
        if fact in marks:
            sentence = f"{marks[fact]} {sentence}"
        notes.append(note(rng, sentence) if cluttered and fact not in marks else sentence)
    return notes, numbers


@dataclass
class Asker:
    """Draws questions about the facts of one case."""

    rng: Random
    level: Level
    numbers: dict[Fact, tuple[int, ...]]
    marks: dict[Fact, str]

    def __post_init__(self) -> None:
        self.notes = {fact[:2]: (fact.value, numbers) for fact, numbers in self.numbers.items()}
        self.asked = [fact for fact in self.numbers if fact.relation in RELATIONS]

    def phrase(self, phrases: Sequence[str], unseen: int, key: str) -> str:
        usable = phrases[-unseen:] if self.level.paraphrase else phrases[:-unseen][: self.level.questions]
        return self.rng.choice(usable).format(k=key)

    def single(self, relation: str, key: str) -> Question:
        """A question about one fact, which the notes may lack."""
        text = self.phrase(RELATIONS[relation].questions, relations.UNSEEN_QUESTIONS, key)
        return self.answered(text, (relation,), key)

    def chain(self, chain: tuple[str, ...], key: str) -> Question:
        """A question about facts whose answer names the steps between."""
        text = self.phrase({**CHAINS, **FURTHER_CHAINS}[chain], relations.UNSEEN_CHAIN_QUESTIONS, key)
        return self.answered(text, chain, key)

    def answered(self, text: str, chain: tuple[str, ...], key: str) -> Question:
        """The question with the answer that follows from the notes."""
        restate = self.level.restate and self.rng.random() < self.level.restate
        if restate:
            text = f"{text} {self.rng.choice(relations.RESTATE)}"
        if (chain[0], key) not in self.notes:
            return Question("none", text, relations.ABSENT)
        answer = Answer(self.notes)
        value = answer.chain(chain, key)
        if value and restate:
            answer.restate(value)
        for fact, mark in self.marks.items() if value else ():
            answer.notice(mark, fact.relation, fact.key)
        kinds = {
            "half": not value,
            "restated": restate,
            "notice": bool(self.marks),
            "aside": answer.has_asides,
            "twice": any(len(group) > 1 for group in answer.values[answer.final].needs),
            ("one", "two", "three")[len(chain) - 1]: True,
        }
        kind = next(kind for kind in kinds if kinds[kind])
        return Question(kind, text, answer.text, tuple(answer.values), answer.final)

    def absent(self) -> Question:
        """A question whose fact, or first fact, the notes lack."""
        while True:
            fact = self.rng.choice(self.asked)
            name = self.rng.choice(fact[1:])
            if self.level.chains and self.rng.random() < 0.2:
                chain = self.rng.choice(list(CHAINS))
                question = self.chain(chain, self.entity(chain[0], name))
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
        singles = [self.single(*fact[:2]) for fact in self.asked]
        chains = self.chains(CHAINS)
        further = self.chains(FURTHER_CHAINS) if self.level.further else []
        twos = [question for question in chains if question.kind != "half"]
        others = [question for question in further if question.kind != "half"]
        halves = [question for question in chains + further if question.kind == "half"]
        for some in (singles, twos, halves, others):
            self.rng.shuffle(some)
        drawn = []
        for _ in range(count):
            chance = self.rng.random()
            if chance < self.level.absent:
                use_half = halves and self.level.chains and self.rng.random() < 0.4
                drawn.append(halves.pop() if use_half else self.absent())
            elif others and self.rng.random() < 0.5:
                drawn.append(others.pop())
            elif twos and self.level.chains and (self.rng.random() < 0.7 or not singles):
                drawn.append(twos.pop())
            elif singles:
                drawn.append(singles.pop())
        return drawn

    def chains(self, chains: Iterable[tuple[str, ...]]) -> list[Question]:
        """The questions of some chains whose first fact the notes state."""
        return [self.chain(chain, fact.key) for fact in self.asked for chain in chains if chain[0] == fact.relation]


def draw_case(rng: Random, level: Level, count: int, unseen: bool = False) -> Case:
    """Notes on about `count` facts of the world, with questions.

    >>> case = draw_case(Random(0), Level(), 2)
    >>> len(case.notes), case.questions[0].kind
    (2, 'one')
    """
    while True:
        facts = draw_facts(rng, level, count, unseen)
        marks = mark(rng, level, facts)
        notes, numbers = state(rng, level, facts, marks)
        questions = Asker(rng, level, numbers, marks).questions(level.turns) if facts else []
        if questions:
            return Case(notes, questions)


def phrases() -> list[str]:
    """Every text of the world with its slots, for the vocabulary."""
    texts = [relations.ABSENT, ", and the", *(f" {text}" for text in relations.MISSING.values())]
    texts += ["Notes:\n- x", "Question: x\nAnswer: x"]
    for relation in RELATIONS.values():
        texts += [*relation.statements, *relation.questions, relation.answer]
    for further in (*CHAINS.values(), *CLUTTER.values(), *FURTHER_CHAINS.values()):
        texts += further
    for relation in ASIDES.values():
        texts += [*relation.statements, f" {relation.answer}"]
    texts += [*(f" {text}" for text in relations.RESTATE), f" {relations.RESTATED}"]
    texts += relations.NOTICES
    return [re.sub(r"\{\w+\}", "x", text) for text in texts]
