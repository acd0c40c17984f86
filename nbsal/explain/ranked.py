"""The strongest words or tokens of a text, as a list beside it names them: equal words of a text are one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbsal.explain.explained import Floats
from nbsal.explain.sentences.decision_facts import Candidate, Check
from nbsal.explain.sentences.statement import count_and_part
from nbsal.model.text.tokens import Row
from nbsal.render.headline import Phrase
from nbsal.render.html import label

WORDS = 10  # that are listed

EXCERPT = 40  # characters of a part that has another name
Unit = tuple[int, int, int, tuple[int, ...], str]  # the part, start, end and tokens of a word or token; a word's text


@dataclass(frozen=True)
class Ranked:
    """Equal words, or one token, with the sum of their scores."""

    name: tuple[str, str, str]  # a token stands between what its word has before and after it
    aside: str  # how often it is there, and in which text of a pair; of a named part, how its text begins
    score: float
    tokens: tuple[int, ...]

    @property
    def label(self) -> str:
        """The name and what stands beside it."""
        return "".join(self.name) + self.aside


def part_names(row: Row) -> tuple[str, ...]:
    """What the parts of a text of several are called in sentences."""
    return ("first text", "second text") if len(row.parts) > 1 else ()


class Ranker:
    """Ranks the words or the tokens of a text by any row of scores."""

    def __init__(self, row: Row, level: str = "word") -> None:
        self._row, self._level = row, level
        self._units = _words(row) if level == "word" else _tokens(row)
        keys: dict[tuple[int, str], int] = {}
        self._groups = [keys.setdefault(self._key(unit), len(keys)) for unit in self._units]
        self._members: list[list[int]] = [[] for _ in keys]
        for unit, group in enumerate(self._groups):
            self._members[group].append(unit)
        self._places = [(i, unit) for unit, (*_, tokens, _) in enumerate(self._units) for i in tokens]

    def strongest(self, scores: Floats, count: int = WORDS) -> list[Ranked]:
        """Those with the largest scores, for or against, the largest first."""
        if not self._places:
            return []
        tokens, owners = np.array(self._places).T
        sums = np.bincount(owners, scores[tokens], len(self._units)).astype(float)
        totals = np.bincount(self._groups, sums)
        order = np.argsort(-np.abs(totals), kind="stable")[:count]
        return [self._ranked(self._members[group], sums, float(totals[group])) for group in order]

    def _ranked(self, members: Sequence[int], sums: Floats, score: float) -> Ranked:
        best = self._units[max(members, key=lambda unit: abs(sums[unit]))]
        name = self._name(best)
        equal = Candidate(name[1], score, tuple(members), best[0])
        tokens = tuple(i for unit in members for i in self._units[unit][3])
        part, start, end, *_, word = best
        text = self._row.parts[part][start:end]
        excerpt = f": {label(text, EXCERPT)}" if self._level == "word" and word != text else ""
        return Ranked(name, excerpt or count_and_part(equal, part_names(self._row)), score, tokens)

    def _key(self, unit: Unit) -> tuple[int, str]:
        part, start, _, _, name = unit
        return part, name.casefold() if self._level == "word" else str(start)

    def _name(self, unit: Unit) -> tuple[str, str, str]:
        part, start, end, tokens, name = unit
        if self._level == "word":
            return "", label(name), ""
        text = self._row.parts[part]
        word = next((word for word in self._row.words if tokens[0] in word.tokens), None)
        before, after = (text[word.start : start], text[end : word.end]) if word else ("", "")
        return label(before), label(text[start:end]), label(after)


def hidden_alone(row: Row, check: Check | None) -> tuple[tuple[tuple[int, ...], Phrase], ...]:
    """The tokens of each word that was hidden alone, with the value then; of words that turn it, as a class."""
    if check is None or check.unit != "word":
        return ()
    hidden = []
    for word, outcome in zip(check.candidates, check.alone, strict=False):
        units = [row.words[number] for number in word.words if number < len(row.words)]
        if word.text in [unit.text for unit in units]:  # words of a reply's prompt may be cut otherwise
            kind = "class" if check.turns(outcome) else "text"
            tokens = tuple(i for unit in units for i in unit.tokens)
            hidden.append((tokens, (kind, f"{check.text(outcome.value)} without it")))
    return tuple(hidden)


def _words(row: Row) -> list[Unit]:
    words = row.units or row.words
    return [(word.segment, word.start, word.end, word.tokens, word.text) for word in words]


def _tokens(row: Row) -> list[Unit]:
    """The tokens of a text; those that share a character are one."""
    units: list[Unit] = []
    for i in row.content:
        part, (start, end) = row.segments[i], row.offsets[i]
        last = units[-1] if units and units[-1][0] == part else None
        if last and end <= last[2]:
            units[-1] = (*last[:3], (*last[3], i), "")
        elif end > (start := max(start, last[2] if last else 0)):
            units.append((part, start, end, (i,), ""))
    return units
