"""Hide the words that a decision is said to go by in four ways: each alone makes texts such as no model has read."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from nbsal.ablation import tables
from nbsal.ablation.decision import DecisionText
from nbsal.ablation.engine import Ablation
from nbsal.ablation.experiment import Experiment
from nbsal.ablation.texts import REMOVE
from nbsal.explain import checking
from nbsal.explain.checking import DecisionReading, HiddenWords
from nbsal.explain.prompt.neutral import neutral_words, replaced
from nbsal.explain.prompt.sources import Write, cut
from nbsal.explain.sentences.decision_facts import MOST_DRAWS, PASSES, Check
from nbsal.explain.sentences.outcomes import MASKED, ONLY, REMOVED, REPLACED, WAYS, HidingWay
from nbsal.model.text.tokens import Row
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter

MOST_RUNS = PASSES + 4 * (1 + MOST_DRAWS)  # forward passes


def check_in_ways(words: HiddenWords, meter: Meter) -> Check:
    """A check with what hiding its words does in each way, beside the random words that it drew.

    A way in which nothing of the text would be left is not among them.
    """
    text, ablation = _whole_text(words), words.experiment.ablation
    check = checking.check(words, PASSES, meter)
    if not check.named:
        return check
    hidden = checking.places(check.candidates, check.reported)
    drawn = checking.random_words(words, hidden, check.drawn, MOST_DRAWS)
    sets = [hidden, *drawn[: len(check.random)]]
    masking = Experiment(ablation, text, words.experiment.units)
    neutral = partial(replaced, words=neutral_words(text.subject))
    values: dict[str, Iterable[Tensor]] = {
        REMOVED: _written(ablation, text, [_without(text.row, each, cut) for each in sets], meter),
        REPLACED: _written(ablation, text, [_without(text.row, each, neutral) for each in sets], meter),
        MASKED: masking.without(*sets, meter=meter),
        ONLY: masking.only(*sets, meter=meter),
    }
    ways = [_way(name, text, list(each)) for name, each in values.items()]
    return replace(check, ways=tuple(way for way in ways if way is not None))


def _way(name: str, text: DecisionText, values: Sequence[Tensor]) -> HidingWay | None:
    assert isinstance(text.target, DecisionReading)
    outcomes = [text.target.outcome(value, text.subject) for value in values]
    return HidingWay(name, outcomes[0], tuple(outcomes[1:])) if outcomes else None


def _whole_text(words: HiddenWords) -> DecisionText:
    """The text of a decision, if it can be written again."""
    text, row = words.experiment.text, words.saliency.row
    if not isinstance(text, DecisionText) or text.subject.task != "sequence":
        problem = "needs one decision about a whole text, since words are also left out of what the model reads"
        raise _refusal(f"{problem}. Pass check=True, which hides them in place.")
    if text.subject.encode(row.text)[0].ids != row.ids:
        raise _refusal("writes texts again, and these token ids are not those of a text. Pass check=True.")
    return replace(text, way=REMOVE)


def _refusal(problem: str) -> InputError:
    return InputError(f"check={WAYS!r} {problem}", argument="check", value=WAYS)


def _without(row: Row, numbers: Iterable[int], write: Write) -> tuple[str, ...]:
    """The text, or both of a pair, written again without some words."""
    hidden = [row.words[number] for number in numbers]
    spans = [[(word.start, word.end) for word in hidden if word.segment == part] for part in range(len(row.parts))]
    return tuple(map(write, row.parts, spans))


def _written(ablation: Ablation, text: DecisionText, texts: Sequence[tuple[str, ...]], meter: Meter) -> list[Tensor]:
    """What is read of other texts in place of one, of those with words; nothing if the first one has none."""
    if not all(map(str.strip, texts[0])):
        return []
    with_words: list[Any] = [parts if len(parts) > 1 else parts[0] for parts in texts if all(map(str.strip, parts))]
    rows = text.subject.encode(with_words).rows
    whole = [tables.without(len(row), []) for row in rows]
    return [each[0] for each in ablation.values([replace(text, row=row) for row in rows], whole, meter)]
