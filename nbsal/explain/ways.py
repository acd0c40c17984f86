"""Hide the words that a decision is said to go by in four ways: each alone makes texts such as no model has read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from nbsal.ablation.decision import DecisionText
from nbsal.ablation.experiment import Experiment
from nbsal.ablation.texts import REMOVE
from nbsal.explain import checking
from nbsal.explain.checking import DecisionReading, HiddenWords
from nbsal.explain.prompt.neutral import NeutralWords
from nbsal.explain.prompt.sources import cut
from nbsal.explain.sentences.decision_facts import MOST_DRAWS, PASSES, Check
from nbsal.explain.sentences.outcomes import MASKED, ONLY, REMOVED, REPLACED, WAYS, HidingWay
from nbsal.model.text.tokens import Span
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter

MOST_RUNS = PASSES + 4 * (1 + MOST_DRAWS)  # forward passes
Write = Callable[[str, Sequence[Span]], str]  # a text again, without what stands in some spans


def check_in_ways(words: HiddenWords, meter: Meter) -> Check:
    """A check with what hiding its words does in each way, beside the random words that it drew.

    A way in which nothing of the text would be left is not among them.
    """
    written = _Written(words, *_whole_text(words), meter)
    check = checking.check(words, PASSES, meter)
    if not check.named:
        return check
    hidden = checking.places(check.candidates, check.reported)
    drawn = checking.random_words(words, hidden, check.drawn, MOST_DRAWS)
    sets = [hidden, *drawn[: len(check.random)]]
    masking = Experiment(words.experiment.ablation, replace(written.text, way=REMOVE), words.experiment.units)
    values = {
        REMOVED: written.without(sets, cut),
        REPLACED: written.without(sets, NeutralWords(written.text.subject.tokenizer).replaced),
        MASKED: list(masking.without(*sets, meter=meter)),
        ONLY: list(masking.only(*sets, meter=meter)),
    }
    return replace(check, ways=tuple(written.way(name, each) for name, each in values.items() if len(each)))


def _whole_text(words: HiddenWords) -> tuple[DecisionText, DecisionReading]:
    """The text of a decision, if it can be written again."""
    text, row = words.experiment.text, words.saliency.row
    if not isinstance(text, DecisionText) or text.subject.task != "sequence":
        problem = "needs one decision about a whole text, since words are also left out of what the model reads"
        raise _refusal(f"{problem}. Pass check=True, which hides them in place.")
    if text.subject.encode(row.text)[0].ids != row.ids:
        raise _refusal("writes texts again, and these token ids are not those of a text. Pass check=True.")
    assert isinstance(text.target, DecisionReading)
    return text, text.target


def _refusal(problem: str) -> InputError:
    return InputError(f"check={WAYS!r} {problem}", argument="check", value=WAYS)


@dataclass(frozen=True, eq=False)
class _Written:
    """A text that is written again without some of its words, and tokenized anew."""

    words: HiddenWords
    text: DecisionText
    reading: DecisionReading
    meter: Meter

    def without(self, sets: Sequence[Iterable[int]], write: Write) -> list[Tensor]:
        """What is read of the text without each set of words; nothing if the first one leaves no word."""
        texts = [self._parts_without(numbers, write) for numbers in sets]
        if not _says_something(texts[0]):
            return []
        left: list[Any] = [parts if len(parts) > 1 else parts[0] for parts in texts if _says_something(parts)]
        rows = self.text.subject.encode(left).rows
        shorter = [replace(self.text, row=row, way=REMOVE) for row in rows]
        tables = [np.ones((1, len(row)), dtype=bool) for row in rows]
        return [each[0] for each in self.words.experiment.ablation.values(shorter, tables, self.meter)]

    def way(self, name: str, values: Iterable[Tensor]) -> HidingWay:
        first, *others = (self.reading.outcome(value, self.text.subject) for value in values)
        return HidingWay(name, first, tuple(others))

    def _parts_without(self, numbers: Iterable[int], write: Write) -> tuple[str, ...]:
        """The text, or both of a pair, without some words."""
        row = self.text.row
        hidden = [row.words[number] for number in numbers]
        spans = [[(word.start, word.end) for word in hidden if word.segment == i] for i in range(len(row.parts))]
        return tuple(map(write, row.parts, spans))


def _says_something(parts: Sequence[str]) -> bool:
    return all(map(str.strip, parts))
