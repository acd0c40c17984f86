"""Explain texts with one method of one model: a single text, many texts, or every layer at once."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from nbsal.explain.explanation import Floats, versions
from nbsal.explain.saliency import LayerSaliency, Saliencies, Saliency
from nbsal.methods import catalogue, crossing, plugins
from nbsal.methods.base import LayerMethod, Method
from nbsal.methods.decoding import Decoded
from nbsal.model import limits
from nbsal.model.running import architecture, batching, restore
from nbsal.model.subject import Subject
from nbsal.model.targets import describe_values, every_target, is_regression, rows_for_targets
from nbsal.model.text import long_texts
from nbsal.model.text.tokens import Encoded, Row
from nbsal.passes import trace
from nbsal.passes.stream import fits_whole
from nbsal.passes.trace import Trace
from nbsal.support.errors import InputError, NbsalError, UnknownName
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import Text, check_one_per_text, check_texts, checked, plural, positive_number, text_list

if TYPE_CHECKING:
    from nbsal.answers.answer import Answer

LONG = ("truncate", "window")
ENTAILMENT = "entailment"  # the label of models that judge pairs of texts
EVERY = "all"  # the target that stands for each label
OF_ONE_WINDOW = ("gap", "change", "points")  # entries of a provenance that say nothing about the mean over windows
BATCHES_SORTED = 32  # batches that are encoded ahead and sorted by length, to pad little


@checked
class Explainer:
    """Explains the decisions of one model with one method.

    `method` is a catalogue name with its settings, or an instance. `long` says how to handle texts beyond the model's
    length: "truncate" cuts them off, "window" averages over overlapping windows. The provenance records which.

    >>> import nbsal
    >>> explain = Explainer(nbsal.load("demo/reviews"), "decoded-gradcam", layer=4)
    >>> explain("A warm and funny film.").prediction
    'positive'
    """

    def __init__(self, subject: Subject, method: str | Method, *, long: str = "truncate", **options: Any) -> None:
        method = catalogue.as_method(method, **options)
        if long not in LONG:
            raise UnknownName("long", long, LONG)
        limits.check_method(subject, method.name, method.family)
        self.subject = subject
        self.method = crossing.resolve(method, subject)
        self.long = long

    @property
    def method_subject(self) -> Subject:
        """The subject that the method runs: the same one, a float64 copy, or a published variant."""
        return self.method.subject_for(self.subject)

    @overload
    def __call__(self, text: Text, target: Literal["all"]) -> dict[str, Saliency]: ...
    @overload
    def __call__(self, text: Text, target: Any = None) -> Saliency: ...
    def __call__(self, text: Text, target: Any = None) -> Any:
        """Explain one text or a pair; the default target is what the model predicts.

        With target="all", explain each label, or each entity that the model predicts, from one forward pass of a batch:
        a dict of explanations by target.
        """
        encoded = self._encode_text(text)
        if isinstance(target, str) and target == EVERY and EVERY not in self.subject.labels:
            targets = every_target(self.subject, encoded)
            saliencies = explain_batch({"": self}, encoded.select([0] * len(targets)), targets)[""]
            return {saliency.target: saliency for saliency in saliencies}
        return explain_batch({"": self}, encoded, [target])[""][0]

    def ids(
        self, input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None, target: Any = None
    ) -> Saliency:
        """Explain one sequence of token ids."""
        encoded = self.subject.encode_ids(input_ids, attention_mask, token_type_ids)
        if len(encoded) != 1:
            message = f"explain.ids takes one sequence, not {len(encoded)}. Call it for each."
            raise InputError(message, argument="input_ids", value=input_ids)
        saliency = self.encoded(encoded, [target])[0]
        saliency.provenance.pop("unpaired", None)  # without token types, the ids of a pair look like those of one text
        return saliency

    def encoded(self, encoded: Encoded, targets: Sequence[Any]) -> list[Saliency]:
        """Explain a batch of encoded texts, with a target for each."""
        return explain_batch({"": self}, encoded, targets)[""]

    def reply(self, asked: Any, reply: Any = None, **settings: Any) -> "Answer":
        """Explain why a model replies what it does: see `nbsal.answer`, which has the same arguments."""
        answers = import_module("nbsal.answers.answering")  # by name: answers are a room above this one
        answer: Answer = answers.explain_one(self, asked, reply, answers.ReplySettings.of(settings))
        return answer

    def replies(self, rows: Any, **settings: Any) -> "list[Answer]":
        """Explain many replies: rows are prompts, or dicts with "asked", "documents", "reply"; see `explain_rows`."""
        answers: list[Answer] = import_module("nbsal.answers.replies").explain_rows(self, rows, **settings)
        return answers

    def every_layer(self, text: Text, target: Any = None) -> LayerSaliency:
        """Explain one text at every layer, from one forward and one backward pass.

        >>> import nbsal
        >>> Explainer(nbsal.load("demo/reviews"), "gradcam").every_layer("A joy.").scores.shape
        (7, 5)
        """
        encoded = rows_for_targets(self.subject, self._encode_text(text), [target])
        if self.windowed(encoded[0]):
            message = 'every_layer needs a text within the model\'s length. Shorten it or use long="truncate".'
            raise InputError(message, argument="text", value=text)
        return self.encoded_layers(encoded, target)

    def encoded_layers(self, encoded: Encoded, target: Any) -> LayerSaliency:
        """Explain one encoded text at every layer."""
        method = self.method
        if not isinstance(method, LayerMethod | Decoded):
            message = f"{method.name} does not read a hidden layer. Choose a layer method such as gradcam."
            raise InputError(message, argument="method", value=method)
        layers = range(self.subject.depth + 1)

        def run() -> tuple[Trace, Tensor, Tensor]:
            record = trace.record(self.method_subject, encoded, [target], method.needs)
            scores = method.every_layer_scores(record, layers)[:, 0]
            inner = method.method if isinstance(method, Decoded) else method
            return record, scores, torch.stack([replace(inner, layer=at).tie_breaker(record)[0] for at in layers])

        with batching.memory_errors():
            record, scores, tie_breaker = restore.exclusively(self.subject.model, run)
        saliency = self._saliency(record, 0, scores, tie_breaker, self._provenance(record.subject), {})
        settings = saliency.provenance["parameters"] | {"layer": "every"}
        return LayerSaliency(**vars(saliency) | {"provenance": saliency.provenance | {"parameters": settings}})

    def map(
        self,
        texts: Iterable[Text],
        targets: Any = None,
        batch_size: int = 32,
        progress: Progress = True,
        cancel: Event | None = None,
    ) -> Saliencies:
        """Explain many texts, batched by length; results come in the order of the texts.

        `targets` is one target for all, or a list with one for each text. A generator is consumed as it goes.
        """
        name = self.method.name
        try:
            return explain_many({name: self}, texts, targets, batch_size, progress, cancel)[name]
        except NbsalError as error:
            error.partial = error.partial and error.partial[name]
            raise

    def from_trace(self, record: Trace) -> list[Saliency]:
        """Explain every text of a trace that was recorded before, without another forward pass."""
        scores, tie_breaker = self.method.total(record), self.method.tie_breaker(record)
        notes, shared = self.method.notes(record), self._provenance(record.subject)
        return [
            self._saliency(record, i, scores[i, : len(row)], tie_breaker[i, : len(row)], shared, notes[i])
            for i, row in enumerate(record.encoded)
        ]

    def windowed(self, row: Row) -> bool:
        """True if that text is explained by sliding windows."""
        return bool(row.dropped) and self.long == "window"

    @property
    def provenance(self) -> dict[str, Any]:
        """What every explanation records: model, method, settings, precision, versions."""
        return self._provenance(self.method_subject)

    def _provenance(self, method_subject: Subject) -> dict[str, Any]:
        provenance = {
            "model": self.subject.name,
            "method": self.method.name,
            "parameters": self.method.parameters(),
            "dtype": str(method_subject.dtype).removeprefix("torch."),
            "long": self.long,
            "versions": versions(),
        } | architecture.precision_note(method_subject.device, method_subject.dtype)
        if package := plugins.origin(self.method.name):
            provenance["package"] = package
        if isinstance(self.method, Decoded):
            provenance["lm"] = self.subject.lm_head.source
        return provenance

    def __repr__(self) -> str:
        return f"Explainer({self.subject.name!r}, {self.method})"

    def _encode_text(self, text: Any) -> Encoded:
        if isinstance(text, list):
            message = "text must be one text. To explain many, call explain.map(texts)."
            raise InputError(message, argument="text", value=text)
        return self.subject.encode(check_texts(text)[0])

    def _explain_long(self, row: Row, target: Any, meter: Meter) -> Saliency:
        """Explain one text by sliding windows; the default target is the label with the highest mean probability."""
        windows = long_texts.split_text(self.subject, row.text)
        pieces = [windows.encoded[i : i + 1] for i in range(len(windows.places))]
        if target is None:
            records = [trace.record(self.method_subject, piece, needs=()) for piece in pieces]
            probabilities = [_to_numpy(record.decisions[0].probabilities) for record in records]
            target = long_texts.mean_prediction(probabilities, [_to_numpy(record.logits[0]) for record in records])
        parts = [_fit_batch({"": self}, piece, [target], meter.part(1 / len(pieces), 1))[""][0] for piece in pieces]
        return _join_windows(windows, parts, self.subject)

    def _saliency(
        self, record: Trace, i: int, scores: Tensor, tie_breaker: Tensor, shared: dict[str, Any], notes: dict[str, Any]
    ) -> Saliency:
        row, decision = record.encoded[i], record.decisions[i]
        if is_regression(self.subject):
            notes = notes | {"values": record.logits[i].tolist()}
        if ENTAILMENT in map(str.lower, self.subject.labels) and len(row.parts) == 1:
            notes = notes | {"unpaired": True}
        return Saliency(
            row=row,
            target=decision.target.label,
            prediction=decision.label,
            probabilities=_to_numpy(decision.probabilities),
            method=self.method.name,
            provenance=shared
            | {"parameters": dict(shared["parameters"]), "target": decision.target.label, "dropped": row.dropped}
            | notes,
            scores=_to_numpy(scores),
            tie_breaker=_to_numpy(tie_breaker),
        )


def explain_many(
    explainers: dict[str, Explainer],
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
    results: dict[str, dict[int, Saliency]] = {name: {} for name in explainers}
    with Meter(len(texts) if isinstance(texts, Sequence) else None, progress, cancel) as meter:
        try:
            for places, encoded in _batches(explainers.values(), texts, size):
                meter.check()
                batch_targets = [_target_at(targets, place) for place in places]
                done = meter.done + len(places)
                part = meter.part(len(places), len(explainers))
                for name, saliencies in explain_batch(explainers, encoded, batch_targets, part).items():
                    results[name].update(zip(places, saliencies, strict=True))
                meter.reach(done)
        except NbsalError as error:
            error.partial = {name: _in_order(by_place) for name, by_place in results.items()}
            raise
    return {name: _in_order(by_place) for name, by_place in results.items()}


def explain_batch(
    explainers: Mapping[str, Explainer], encoded: Encoded, targets: Sequence[Any], meter: Meter | None = None
) -> dict[str, list[Saliency]]:
    """Explain one batch with several explainers of one subject, from one trace for all that share a model.

    `meter` counts explainers. Texts beyond the model's length that an explainer reads by windows are explained one by
    one, the rest as a batch.
    """
    encoded = rows_for_targets(next(iter(explainers.values())).subject, encoded, targets)
    meter, share = meter or Meter(None), 1 / len(encoded)
    long = [i for i, row in enumerate(encoded) if any(explainer.windowed(row) for explainer in explainers.values())]
    short = [i for i in range(len(encoded)) if i not in long]
    results: dict[str, dict[int, Saliency]] = {name: {} for name in explainers}
    if short:
        part = meter.part(len(explainers) * len(short) * share, len(explainers))
        batch = _fit_batch(explainers, encoded.select(short), [targets[i] for i in short], part)
        for name, saliencies in batch.items():
            results[name].update(zip(short, saliencies, strict=True))
    for i in long:
        for name, explainer in explainers.items():
            part = meter.part(share, 1)
            if explainer.windowed(encoded[i]):
                results[name][i] = explainer._explain_long(encoded[i], targets[i], part)
            else:
                results[name][i] = _fit_batch({name: explainer}, encoded.select([i]), [targets[i]], part)[name][0]
    return {name: [by_place[i] for i in range(len(encoded))] for name, by_place in results.items()}


def _fit_batch(
    explainers: Mapping[str, Explainer], encoded: Encoded, targets: Sequence[Any], meter: Meter
) -> dict[str, list[Saliency]]:
    """Explain a batch whole, or in halves where it does not fit into memory."""

    def run_part(places: Sequence[int]) -> dict[str, list[Saliency]]:
        meter.reach(places[0] * len(explainers) / len(encoded))
        part = meter.part(len(explainers) * len(places) / len(encoded), len(explainers))
        return _run_batch(explainers, encoded.select(places), [targets[i] for i in places], part)

    parts = batching.run_in_halves(range(len(encoded)), run_part)
    return {name: [saliency for part in parts for saliency in part[name]] for name in explainers}


def _run_batch(
    explainers: Mapping[str, Explainer], encoded: Encoded, targets: Sequence[Any], meter: Meter
) -> dict[str, list[Saliency]]:
    results: dict[str, list[Saliency]] = {}

    def explain_group(subject: Subject, stream: bool, names: Sequence[str]) -> None:
        methods = [explainers[name].method for name in names]
        needs = frozenset[str]().union(*(method.needs for method in methods))
        layers = set[int]().union(*(method.layers(subject.depth) for method in methods))
        record = trace.record(subject, encoded, targets, needs, layers, stream)
        record.meter = meter
        for name in names:
            meter.check()
            results[name] = explainers[name].from_trace(record)
            meter.reach(len(results))

    def explain_groups() -> None:
        groups: dict[tuple[Subject, bool], list[str]] = {}
        for name, explainer in explainers.items():
            subject = explainer.method_subject
            stream = explainer.method.by_block and not fits_whole(subject, encoded)
            groups.setdefault((subject, stream), []).append(name)
        for group, names in groups.items():
            restore.exclusively(group[0].model, partial(explain_group, *group, names))

    restore.exclusively(next(iter(explainers.values())).subject.model, explain_groups)
    return results


def _join_windows(windows: long_texts.Windows, parts: Sequence[Saliency], subject: Subject) -> Saliency:
    """One explanation of the whole text; a token in several windows gets its mean score."""
    provenance = {name: value for name, value in parts[0].provenance.items() if name not in OF_ONE_WINDOW}
    probabilities = np.mean([part.probabilities for part in parts], axis=0)
    if is_regression(subject):
        provenance["values"] = np.mean([part.provenance["values"] for part in parts], axis=0).tolist()
        prediction = describe_values(subject.labels, provenance["values"])
    else:
        prediction = subject.labels[int(probabilities.argmax())]
    return replace(
        parts[0],
        row=windows.row,
        prediction=prediction,
        probabilities=probabilities,
        provenance=provenance | {"windows": len(parts)},
        scores=windows.mean([part.scores for part in parts]),
        tie_breaker=windows.mean([part.tie_breaker for part in parts]),
    )


def _batches(
    explainers: Collection[Explainer], texts: Iterable[Text], size: int
) -> Iterator[tuple[list[int], Encoded]]:
    """Batches of texts of similar length, with their places in the order of the texts."""
    source, first, subject = iter(texts), 0, next(iter(explainers)).subject
    while ahead := list(islice(source, size * BATCHES_SORTED)):
        encoded = subject.encode(ahead, first=first)
        for places, batch in length_batches(explainers, encoded, size):
            yield [first + place for place in places], batch
        first += len(ahead)


def length_batches(
    explainers: Collection[Explainer], encoded: Encoded, size: int
) -> Iterator[tuple[list[int], Encoded]]:
    """Batches of texts of similar length, with their places, for explainers of one subject.

    Texts that are explained by windows are batches of their own.
    """
    pairwise = any(explainer.method.pairwise for explainer in explainers)
    windowed = {i for i, row in enumerate(encoded) if any(explainer.windowed(row) for explainer in explainers)}
    alone = range(len(encoded)) if next(iter(explainers)).subject.unbatchable else windowed
    for places in batching.length_batches([len(row) for row in encoded], size, pairwise, alone):
        yield places, encoded.select(places)


def _target_at(targets: Any, place: int) -> Any:
    if not isinstance(targets, list):
        return targets
    if place >= len(targets):
        message = f"targets must have one entry for each text, but there are more than {plural(len(targets), 'text')}."
        raise InputError(message, argument="targets", value=targets)
    return targets[place]


def _in_order(by_place: dict[int, Saliency]) -> Saliencies:
    return Saliencies([by_place[place] for place in sorted(by_place)])


def _to_numpy(tensor: Tensor) -> Floats:
    """The tensor as a numpy array; half precision, which numpy supports only in part, becomes float32."""
    tensor = tensor.detach().cpu()
    return (tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()).numpy()
