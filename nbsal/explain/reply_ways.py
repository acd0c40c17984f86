"""Hide the sources of a reply in further ways, and say how likely the model finds the prompts that this makes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import numpy as np

from nbsal.ablation import tables
from nbsal.ablation.engine import Ablation
from nbsal.ablation.reply import ReplyText
from nbsal.ablation.texts import TEXT
from nbsal.explain.prompt.neutral import neutral_words, replaced
from nbsal.explain.prompt.reading import Prompt
from nbsal.explain.scoring import served
from nbsal.explain.sentences.evidence import Evidence, Level, SourceWay, hides, measure, places_of, subsets
from nbsal.explain.sentences.outcomes import ONLY, REMOVED, REPLACED, WAYS
from nbsal.model import encoder_decoder
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row
from nbsal.support.arrays import Flags, Floats
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter, Progress

if TYPE_CHECKING:
    from nbsal.explain.scoring.reply_experiment import ReplyExperiment

Prompts = Sequence[tuple[int, ...]]  # their tokens


def check_runs_here(subject: Subject) -> None:
    """Refuse a model that is asked for whole prompts."""
    if served.server_of(subject) is not None:
        raise _refusal("hides words from the model itself, and a server reads whole prompts")


def check_written(prompt: Prompt) -> None:
    """Refuse sources of which it is not known where their characters went."""
    for name, source in zip(prompt.names, prompt.sources, strict=True):
        if source.status == "rewritten":
            raise _refusal(f"writes the prompt again, but the template rewrote {name}")


def _refusal(problem: str) -> InputError:
    return InputError(f"check={WAYS!r} {problem}. Pass check=True.", argument="check", value=WAYS)


def measure_in_ways(
    experiment: "ReplyExperiment", level: Level, progress: Progress, cancel: Event | None
) -> Evidence | None:
    """The evidence of a reply, and what hiding its places in further ways does; None if nothing can be hidden."""
    with Meter(len(subsets(experiment)) + passes_of(experiment), progress, cancel) as meter:
        evidence = measure(experiment, meter, level)
        return None if evidence is None else measure_ways(experiment, evidence, meter)


def measure_ways(experiment: "ReplyExperiment", evidence: Evidence, meter: Meter) -> Evidence:
    """The evidence with each of its places left out of the text, replaced by neutral words, and left alone.

    Of a prompt with documents, a place is left alone by leaving out the other documents; else the other sentences, but
    for the last one, which counts as the question.
    """
    ablation, reading = experiment.ablation, experiment.reading
    check_runs_here(ablation.subject)
    check_written(reading.prompt)
    removing = experiment.with_units(experiment.parts, TEXT)
    replacing = removing.replacing(partial(replaced, words=neutral_words(ablation.subject)))
    hidden, others = _tables(experiment, evidence)
    ways = []
    for name, each, table in ((REMOVED, removing, hidden), (REPLACED, replacing, hidden), (ONLY, removing, others)):
        values = each.numbers(table, meter=meter)
        ways.append(SourceWay(name, values, _likelihood(ablation, each.prompts(table), meter)))
    whole = _likelihood(ablation, [reading.prompt.ids], meter)
    return replace(evidence, ways=tuple(ways), likelihood=None if whole is None else float(whole[0]))


def passes_of(experiment: "ReplyExperiment") -> int:
    """At most how many forward passes this takes."""
    return 6 * len(places_of(experiment.reading, experiment.parts)) + 1


def _tables(experiment: "ReplyExperiment", evidence: Evidence) -> tuple[Flags, Flags]:
    """All units but those of each place, and those of each place but not others that could stand in for it."""
    masks = np.array([hides(experiment.parts, place) for place in evidence.places])
    candidates = evidence.candidates if evidence.level == "word" else evidence.candidates[:-1]
    compared = masks[list(evidence.documents or candidates or evidence.candidates)].any(0)
    count = len(experiment.parts)
    return (
        tables.without(count, *map(np.flatnonzero, masks)),
        tables.without(count, *(np.flatnonzero(compared & ~mask) for mask in masks)),
    )


def _likelihood(ablation: Ablation, prompts: Prompts, meter: Meter) -> Floats | None:
    """The mean log-probability of the tokens of some prompts after the first; None if the model writes none."""
    subject = ablation.subject
    if subject.task == encoder_decoder.REPLY:
        return None
    way = subject.text_encoder.pad_id  # nothing is hidden
    means = []
    for ids in prompts:  # one at a time: a batch reads as many outputs of each
        (values,) = ablation.values([ReplyText(subject, _row(ids), 1, way=way)], [tables.without(len(ids), [])], meter)
        means.append(float(values[0, 0].sum()) / max(1, len(ids) - 1))
    return np.array(means)


def _row(ids: tuple[int, ...]) -> Row:
    """Tokens as a row."""
    return Row("", ids, (), (), (), (), (0,) * len(ids), (1,) * len(ids))
