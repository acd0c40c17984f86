"""The jobs of a batch of texts, before any of them runs: which methods share a trace, and which windows are run."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

from nbsal.model import encoder_decoder
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded

LIMIT = 2**30  # bytes that a trace of whole maps, and the weights that are converted for it, may take
LONG = 16  # tokens for each feature of a head, from which on whole maps cost more than blocks that run again
MAPS = 4  # attention maps that a trace holds for each block: weights, scores, gradients, relevance


class PlannedMethod(Protocol):
    """What a plan asks of a method."""

    @property
    def needs(self) -> frozenset[str]: ...
    @property
    def by_block(self) -> bool: ...
    def subject_for(self, subject: Subject) -> Subject: ...
    def layers(self, depth: int) -> set[int]: ...


@dataclass(frozen=True)
class LongText:
    """A text that some methods, by name, read by windows, and the target that they explain in each."""

    windows: Encoded
    target: Any
    names: Collection[str]


@dataclass(frozen=True, eq=False)
class TraceJob:
    """Texts that are run together, and the methods that read what is recorded of them."""

    subject: Subject
    rows: Encoded
    places: Sequence[int]  # of the texts in their batch; of a window, its number
    targets: Sequence[Any]
    names: Sequence[str]  # of the methods
    needs: frozenset[str] = frozenset()
    layers: frozenset[int] = frozenset()
    by_block: bool = False
    window_of: int | None = None  # the place of the long text that this is a window of
    work: float = 0.0  # how many texts this counts as in a report of progress

    def part(self, numbers: Sequence[int]) -> "TraceJob":
        """The job of some of its texts, in their order."""
        if len(numbers) == len(self.rows):
            return self
        return replace(
            self,
            rows=self.rows.select(numbers),
            places=[self.places[number] for number in numbers],
            targets=[self.targets[number] for number in numbers],
            work=self.work * len(numbers) / len(self.rows),
        )

    def __str__(self) -> str:
        window = "" if self.window_of is None else f", window {self.places[0]} of text {self.window_of}"
        layers = f" at layers {sorted(self.layers)}" if self.layers else ""
        whole = ", block by block" if self.by_block else ""
        reads = ", ".join(sorted(self.needs)) or "outputs"
        return (
            f"{len(self.rows)} x {self.rows.longest} tokens{window}: {', '.join(self.names)} ({reads}{layers}{whole})"
        )


def plan(
    readers: Mapping[str, PlannedMethod],
    subject: Subject,
    rows: Encoded,
    targets: Sequence[Any],
    long_texts: Mapping[int, LongText] = MappingProxyType({}),
) -> list[TraceJob]:
    """The jobs of a batch; methods that run the same model share them.

    A text that some methods read by windows, in `long_texts` by its place, is run by itself, each window in turn.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> readers = {name: nbsal.Explainer(subject, name).method for name in ("simple", "gradcam", "rollout")}
    >>> for job in plan(readers, subject, subject.encode(["A joy.", "A bore."]), [None, None]):
    ...     print(job)
    2 x 5 tokens: simple, gradcam, rollout (attention, hidden, hidden_grad at layers [0, 5])
    """
    whole = TraceJob(subject, rows, range(len(rows)), targets, tuple(readers))
    if not long_texts:
        return list(_group(whole, readers, len(rows)))
    jobs: list[TraceJob] = []
    if short := [place for place in range(len(rows)) if place not in long_texts]:
        jobs += _group(whole.part(short), readers, len(short))
    for place, text in long_texts.items():
        others = tuple(name for name in readers if name not in text.names)
        jobs += _group(replace(whole.part([place]), names=others), readers, 1)
        for window, row in enumerate(text.windows):
            part = Encoded([row], text.windows.pad_id)
            job = TraceJob(subject, part, [window], [text.target], tuple(text.names), window_of=place)
            jobs += _group(job, readers, 1 / len(text.windows))
    return jobs


def _group(job: TraceJob, readers: Mapping[str, PlannedMethod], texts: float) -> Iterable[TraceJob]:
    """A job for each set of methods that run the same model, whole or block by block; together they are `texts`."""
    groups: dict[tuple[Subject, bool], TraceJob] = {}
    for name in job.names:
        reader = readers[name]
        model = reader.subject_for(job.subject)
        by_block = reader.by_block and not fits_whole(model, job.rows)
        group = groups.get((model, by_block), replace(job, subject=model, names=(), by_block=by_block))
        groups[model, by_block] = replace(
            group,
            names=(*group.names, name),
            needs=group.needs | reader.needs,
            layers=group.layers | reader.layers(model.depth),
            work=group.work + texts / len(readers),
        )
    return groups.values()


def fits_whole(subject: Subject, encoded: Encoded) -> bool:
    """Whether the attention maps of all blocks, and the weights that are converted for them, should be held at once.

    Those of an encoder-decoder are: a stream follows one stack of blocks.
    """
    if subject.task == encoder_decoder.REPLY:
        return True
    if encoded.longest * subject.heads >= LONG * subject.width:
        return False
    numbers = MAPS * len(encoded) * subject.depth * subject.heads * encoded.longest**2
    if subject.dtype != subject.model.dtype:
        weights = sum(weight.numel() for block in subject.blocks for weight in block.parameters())
        numbers += weights * subject.depth // len(subject.blocks)
    return numbers * subject.dtype.itemsize <= LIMIT
