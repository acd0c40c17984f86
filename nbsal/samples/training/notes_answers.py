"""Write answers of the made-up world of `demo/notes`, with the notes behind each of their values."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nbsal.samples.training.notes_relations import ASIDES, MISSING, RELATIONS, RESTATED

ASIDE = {relation.key: name for name, relation in ASIDES.items()}  # by the pool that has the keys
Numbers = tuple[int, ...]


class Value(NamedTuple):
    """Words of an answer that come from notes, not from the question."""

    word: str
    at: int  # the character of the answer where they begin
    direct: Numbers = ()  # the notes that state them: any of these will do
    needs: tuple[Numbers, ...] = ()  # the notes behind them, also through earlier words: one of each group


class Answer:
    """An answer that grows clause by clause; `notes` has the value of each relation and key, and the notes with it."""

    def __init__(self, notes: Mapping[tuple[str, str], tuple[str, Numbers]]) -> None:
        self.notes = notes
        self.text = ""
        self.values: list[Value] = []
        self.needs: tuple[Numbers, ...] = ()
        self.final = -1  # the index of the value that was asked for
        self.has_asides = False

    def chain(self, chain: Sequence[str], key: str) -> str | None:
        """Write a clause for each fact of a chain; returns the last value, or None if a note is missing."""
        value: str | None = key
        for relation in chain:
            value = value and self._clause(relation, value)
        self.text += "."
        return value

    def restate(self, value: str) -> None:
        """Write a second sentence, which restates the last value."""
        before, after = RESTATED.split("{v}")
        self.text += f" {before}"
        self.final = len(self.values)
        self._value(value, self.needs[-1])
        self.text += after

    def notice(self, mark: str, relation: str, key: str) -> None:
        """Write a sentence that nobody asked for."""
        value, numbers = self.notes[relation, key]
        before, between, after = re.split(r"\{[kv]\}", RELATIONS[relation].answer)
        self.text += f" {mark} {before}"
        self.needs = ()
        self._value(key, numbers, numbers)
        self.text += between
        self._value(value, numbers, numbers)
        self.text += after

    def _clause(self, relation: str, key: str) -> str | None:
        """Write one fact, with asides about the names that it is the first to mention; returns its value."""
        kind = RELATIONS[relation]
        before, between, after = re.split(r"\{[kv]\}", kind.answer.rstrip("."))
        if self.needs:
            self.text += f", and {before.replace('The ', 'the ')}"
            self._value(key, self.needs[-1])
        else:
            self.text += before + key
            if self._aside(kind.key, key):
                self.text += ","
        self.text += between
        self.final = len(self.values)
        if (relation, key) not in self.notes:
            self._value(MISSING[kind.value], ())
            return None
        value, numbers = self.notes[relation, key]
        self.needs += (numbers,)
        self._value(value, numbers)
        self._aside(kind.value, value)
        self.text += after
        return value

    def _aside(self, pool: str, name: str) -> bool:
        """Write what else the notes say of a name; returns whether they do."""
        relation = ASIDE.get(pool, "")
        if (relation, name) not in self.notes:
            return False
        value, numbers = self.notes[relation, name]
        self.text += f", {ASIDES[relation].answer.removesuffix('{v}')}"
        self._value(value, numbers, numbers)
        self.has_asides = True
        return True

    def _value(self, word: str, direct: Numbers, *further: Numbers) -> None:
        self.values.append(Value(word, len(self.text), direct, (*self.needs, *further)))
        self.text += word
