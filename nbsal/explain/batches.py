"""Explain many texts with several explainers of one model: batches, jobs and results in the order of the texts."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from threading import Event
from typing import Any, Protocol

from nbsal.explain.saliency import Saliencies, Saliency
from nbsal.explain.windows import default_target, join_windows
from nbsal.methods.base import Method
from nbsal.model.running import batching
from nbsal.model.subject import Subject
from nbsal.model.targets import rows_for_targets
from nbsal.model.text.long_texts import Windows, split_text
from nbsal.model.text.tokens import Encoded, Row
from nbsal.passes.plan import LongText, TraceJob, plan
from nbsal.passes.run import run
from nbsal.passes.trace import Trace
from nbsal.support.errors import Cancelled, InputError, ModelError, NbsalError
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import Text, check_one_per_text, plural, positive_number, text_list

BATCHES_SORTED = 32  # batches that are encoded ahead and sorted by length, to pad little
Store = Callable[[str, int, Saliency], object]  # of an explainer by name, and a row by place
Failed = Callable[[int, Exception], object]


class Member(Protocol):
    """One of several explainers that share a model, as far as batches need it."""

    @property
    def subject(self) -> Subject: ...
    @property
    def method(self) -> Method: ...
    def windowed(self, row: Row) -> bool: ...
    def from_trace(self, record: Trace) -> list[Saliency]: ...


def explain_many(
    explainers: Mapping[str, Member],
    texts: Iterable[Text],
    targets: Any,
    batch_size: int,
    progress: Progress,
    cancel: Event | None,
) -> dict[str, Saliencies]:
    """Explain every text with every explainer of one subject, with one shared trace a batch."""
    texts, size = text_list(texts), positive_number(batch_size, "batch_size")
    targets = targets.tolist() if hasattr(targets, "tolist") else targets
    if isinstance(targets, list) and isinstance(texts, Sequence):
        check_one_per_text(targets, "targets", len(texts))
    subject, source, first = next(iter(explainers.values())).subject, iter(texts), 0
    results: dict[str, dict[int, Saliency]] = {name: {} for name in explainers}

    def store(name: str, place: int, saliency: Saliency) -> None:
        results[name][first + place] = saliency

    with Meter(len(texts) if isinstance(texts, Sequence) else None, progress, cancel) as meter:
        try:
            while ahead := list(islice(source, size * BATCHES_SORTED)):
                rows = subject.encode(ahead, first=first)
                row_targets = [_target_at(targets, first + place) for place in range(len(rows))]
                batches, numbers = batches_for(explainers, rows, size), range(first, first + len(rows))
                explain_rows(explainers, rows, row_targets, store, meter, batches, numbers=numbers)
                first += len(ahead)
        except NbsalError as error:
            error.partial = {name: _in_order(by_place) for name, by_place in results.items()}
            raise
    return {name: _in_order(by_place) for name, by_place in results.items()}


def explain_batch(
    explainers: Mapping[str, Member], rows: Encoded, targets: Sequence[Any], meter: Meter | None = None
) -> dict[str, list[Saliency]]:
    """Explain one batch with several explainers of one subject: a list for each, in the order of the rows."""
    results: dict[str, list[Any]] = {name: [None] * len(rows) for name in explainers}

    def store(name: str, place: int, saliency: Saliency) -> None:
        results[name][place] = saliency

    _run_batch(explainers, rows, targets, store, meter or Meter(None))
    return results


def explain_rows(
    explainers: Mapping[str, Member],
    rows: Encoded,
    targets: Sequence[Any],
    store: Store,
    meter: Meter,
    batches: Iterable[Sequence[int]] | None = None,
    failed: Failed | None = None,
    numbers: Sequence[int] | None = None,
) -> None:
    """Explain rows with several explainers of one subject, and call `store` with each result as soon as it is ready.

    `batches` are the places of the rows that are run together, by default all; `meter` counts rows. With `failed`, the
    rows of a batch that fails are explained one by one, and it is called with the place and the error of those that do.
    With the `numbers` of the rows among the caller's texts, the error about an output names the text that has it.
    """
    for places in [range(len(rows))] if batches is None else batches:
        part = meter.part(len(places), len(places))
        part.check()
        try:
            batch, batch_targets = rows.select(places), [targets[place] for place in places]
            _run_batch(explainers, batch, batch_targets, partial(_store_at, store, places), part)
        except Cancelled:
            raise
        except Exception as error:  # a model may raise anything for a text
            names_text = numbers is not None and isinstance(error, ModelError) and error.part == "output"
            if failed is None and not names_text:
                raise
            part.reach(0)
            if len(places) > 1:
                explain_rows(explainers, rows, targets, store, part, [[place] for place in places], failed, numbers)
            elif failed is not None:
                failed(places[0], error)
            elif numbers is not None:
                raise ModelError(f"Text {numbers[places[0]]}: {error}", part="output") from error
        part.reach(len(places))


def _store_at(store: Store, places: Sequence[int], name: str, at: int, saliency: Saliency) -> None:
    """Store the result of a row of a batch by the place of the row."""
    store(name, places[at], saliency)


def _run_batch(
    explainers: Mapping[str, Member],
    rows: Encoded,
    targets: Sequence[Any],
    store: Store,
    meter: Meter,
) -> None:
    subject = next(iter(explainers.values())).subject
    batch = rows_for_targets(subject, rows, targets)
    windows, defaults = windows_of(explainers, batch), {}
    for at, text in windows.items():
        if targets[at] is None:
            defaults[at] = default_target(subject, text, meter)
    parts: defaultdict[tuple[str, int], list[Saliency]] = defaultdict(list)  # of long texts

    def use(job: TraceJob, name: str, record: Trace) -> None:
        saliencies = explainers[name].from_trace(record)
        if job.window_of is None:
            for at, saliency in zip(job.places, saliencies, strict=True):
                store(name, at, saliency)
            return
        done, text = parts[name, job.window_of], windows[job.window_of]
        done += saliencies
        if len(done) == len(text.places):
            store(name, job.window_of, join_windows(text, done, subject))

    run(plan_batch(explainers, batch, targets, windows, defaults), use, meter)


def plan_batch(
    explainers: Mapping[str, Member],
    rows: Encoded,
    targets: Sequence[Any],
    windows: Mapping[int, Windows],
    defaults: Mapping[int, Any],
) -> list[TraceJob]:
    """The jobs of a batch; `defaults` are the targets of texts that are read by windows and have none."""
    subject, long_texts = next(iter(explainers.values())).subject, {}
    for at, text in windows.items():
        names = [name for name, explainer in explainers.items() if explainer.windowed(rows[at])]
        long_texts[at] = LongText(text.encoded, defaults.get(at, targets[at]), names)
    methods = {name: explainer.method for name, explainer in explainers.items()}
    return plan(methods, subject, rows, targets, long_texts)


def windows_of(explainers: Mapping[str, Member], rows: Encoded) -> dict[int, Windows]:
    """The windows over those rows that an explainer reads by windows, by place."""
    subject = next(iter(explainers.values())).subject
    windows = {}
    for at, row in enumerate(rows):
        if row.dropped and any(explainer.windowed(row) for explainer in explainers.values()):
            windows[at] = split_text(subject, row.text)
    return windows


def batches_for(explainers: Mapping[str, Member], rows: Encoded, size: int) -> Iterator[list[int]]:
    """The places of rows of similar length, for explainers of one subject; long texts are batches of their own."""
    members = explainers.values()
    pairwise = any(explainer.method.pairwise for explainer in members)
    windowed = {at for at, row in enumerate(rows) if any(explainer.windowed(row) for explainer in members)}
    alone = range(len(rows)) if next(iter(members)).subject.unbatchable else windowed
    return batching.length_batches([len(row) for row in rows], size, pairwise, alone)


def _target_at(targets: Any, place: int) -> Any:
    if not isinstance(targets, list):
        return targets
    if place >= len(targets):
        message = f"targets must have one entry for each text, but there are more than {plural(len(targets), 'text')}."
        raise InputError(message, argument="targets", value=targets)
    return targets[place]


def _in_order(by_place: dict[int, Saliency]) -> Saliencies:
    return Saliencies([by_place[place] for place in sorted(by_place)])
