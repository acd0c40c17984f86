"""A reply with only some of the documents left: what hiding each of them, and keeping each alone, does to it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from nbsal.ablation import tables
from nbsal.ablation.texts import REMOVE
from nbsal.explain.prompt.reading import Prompt, Unit
from nbsal.explain.prompt.tool_calls import TOOL
from nbsal.explain.scoring.lazy import ReplyExperiment
from nbsal.support.arrays import Flags, Floats
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter

Documents = tuple[int, ...]  # their numbers, from 1


@dataclass(frozen=True, eq=False)
class DocumentSubsets:
    """The log-probability of each token of a reply where only some documents stay, [subset, reply token].

    `sources` are the numbers of the prompt's sources that count as documents: these, or else the results of tools.
    """

    sources: tuple[int, ...]
    stays: tuple[Documents, ...]
    logprob: Floats

    @property
    def documents(self) -> Documents:
        """The numbers of all documents."""
        return tuple(range(1, len(self.sources) + 1))

    def only(self, documents: Iterable[int]) -> Floats:
        """With these documents alone; none of them: with no document."""
        stays = tuple(sorted(documents))
        if stays not in self.stays:
            message = "The reply was not scored with these documents alone. Call nbsal.answer again with reply=..."
            raise InputError(message, argument="documents", value=stays)
        return self.logprob[self.stays.index(stays)]  # type: ignore[no-any-return]

    def without(self, documents: Iterable[int]) -> Floats:
        """Without these documents; none of them: with all."""
        return self.only({*self.documents}.difference(documents))

    def drop(self, documents: Iterable[int]) -> Floats:
        """By how much each token falls without these documents."""
        fall: Floats = self.without(()) - self.without(documents)
        return fall

    def rise(self, documents: Iterable[int]) -> Floats:
        """By how much each token rises with these documents alone, from what it is with none."""
        rise: Floats = self.only(documents) - self.only(())
        return rise

    def run(self, experiment: ReplyExperiment, stays: Iterable[Iterable[int]], meter: Meter | None = None) -> Self:
        """The same with further subsets, of which the model is run on those that it was not run on before."""
        known = {*self.stays}
        new = [each for each in dict.fromkeys(tuple(sorted(each)) for each in stays) if each not in known]
        if not new:
            return self
        values = experiment.numbers(as_table(len(self.sources), new), meter=meter)
        return replace(self, stays=(*self.stays, *new), logprob=np.concatenate([self.logprob, values]))


def citable(prompt: Prompt) -> list[Unit]:
    """The documents of a prompt, or else the results of tools, each as one unit; none if it has neither."""
    kind, role = ("document", "") if prompt.has_documents else ("message", TOOL)  # calls have that role as well
    chosen = [number for number, source in enumerate(prompt.sources) if (source.kind, source.role) == (kind, role)]
    return [unit for unit in prompt.units("document") if unit.source in chosen]


def document_units(prompt: Prompt) -> list[Unit]:
    """The same; a prompt that has neither is refused."""
    if not (units := citable(prompt)):
        message = "The prompt has no documents, and no results of tools, that a reply could use. Pass documents=[...]."
        raise InputError(message, argument="documents", value=())
    return units


def question_of(prompt: Prompt) -> str:
    """What the user says beside the documents."""
    documents = {unit.source for unit in document_units(prompt)}
    return "\n".join(source.text for number, source in enumerate(prompt.sources) if number not in documents)


def hide_documents(experiment: ReplyExperiment) -> ReplyExperiment:
    """The experiment that hides documents."""
    return experiment.with_units(document_units(experiment.reading.prompt), REMOVE)


def measure_documents(experiment: ReplyExperiment, meter: Meter | None = None) -> DocumentSubsets:
    """A reply with all documents, without each, with each alone and with none."""
    sources = tuple(unit.source for unit in document_units(experiment.reading.prompt))
    empty = DocumentSubsets(sources, (), np.zeros((0, len(experiment.reading.reply_ids))))
    return empty.run(hide_documents(experiment), first_subsets(empty.documents), meter)


def as_table(count: int, stays: Iterable[Documents]) -> Flags:
    """Which of some documents stay, [subset, document]."""
    return tables.only(count, *([number - 1 for number in each] for each in stays))


def first_subsets(documents: Documents, groups: Iterable[Sequence[int]] = ()) -> list[Documents]:
    """The subsets of documents that are run first: each of them and each group, alone and left out."""
    sets = [(), *((number,) for number in documents), *map(tuple, groups)]
    stays = [*sets, *(tuple(number for number in documents if number not in each) for each in sets)]
    return list(dict.fromkeys(tuple(sorted(each)) for each in stays))
