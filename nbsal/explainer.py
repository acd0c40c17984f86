"""Explainer: a subject and a method, asked about one text, many, or every layer at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import islice
from threading import Event
from typing import Any

import numpy as np
from torch import Tensor

from nbsal import __version__, trace, windows
from nbsal.encoding import Encoded, Row, Text
from nbsal.errors import Cancelled, InputError, UnknownName
from nbsal.methods import catalogue
from nbsal.methods.base import LayerMethod, Method
from nbsal.methods.decoding import Decoded
from nbsal.progress import Meter, Progress, track
from nbsal.saliency import LayerSaliency, Saliencies, Saliency
from nbsal.subject import Subject
from nbsal.trace import Trace

LONG = ("truncate", "window")
SORTED_AHEAD = 32  # batches that are read ahead and sorted by length, so that little is padded


class Explainer:
    """Why a model decides what it decides.

    `method` is a catalogue name with its settings, or an instance. `long` says what becomes of texts beyond the model's
    length: "truncate" cuts them, "window" reads overlapping windows and averages; the result says so.

    >>> import nbsal
    >>> explain = Explainer(nbsal.load("demo/reviews"), "decoded-gradcam", layer=4)
    >>> explain("A warm and funny film.").prediction
    'positive'
    """

    def __init__(self, subject: Subject, method: str | Method, *, long: str = "truncate", **options: Any) -> None:
        if isinstance(method, str):
            method = catalogue.create(method, **options)
        elif options:
            raise InputError(f"Settings go into the method itself: {type(method).__name__}({', '.join(options)}=...).")
        if long not in LONG:
            raise UnknownName("way to read long texts", long, LONG)
        self.subject = subject
        self.method = method.resolve(subject)
        self.long = long

    def __call__(self, text: Text, target: Any = None) -> Saliency:
        """Explain one text, or a pair; `target` None is what the model predicts."""
        if isinstance(text, list):
            raise InputError("Explain one text at a time, or many with explain.map(texts).")
        if self.long == "window" and len(pieces := self.subject.encode(text, window=True)) > 1:
            return self._windowed(text, pieces, target)
        return self._explain(self.subject.encode(text), [target])[0]

    def ids(
        self, input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None, target: Any = None
    ) -> Saliency:
        """Explain token ids made elsewhere, one sequence."""
        encoded = self.subject.encode_ids(input_ids, attention_mask, token_type_ids)
        if len(encoded) != 1:
            raise InputError(f"explain.ids takes one sequence, not {len(encoded)}.")
        return self._explain(encoded, [target])[0]

    def every_layer(self, text: Text, target: Any = None) -> LayerSaliency:
        """The same explanation at every layer, from one forward and one backward.

        >>> import nbsal
        >>> Explainer(nbsal.load("demo/reviews"), "gradcam").every_layer("A joy.").scores.shape
        (7, 5)
        """
        method = self.method
        if not isinstance(method, LayerMethod | Decoded):
            raise InputError(f"{method.name} does not read one hidden layer: it has no layers to go through.")
        layers = range(self.subject.depth + 1)
        with self.subject.lock:
            read = trace.record(self.subject, self.subject.encode(text), [target], method.needs)
            scores = method.every(read, layers)
            inner = method.method if isinstance(method, Decoded) else method
            signed = [replace(inner, layer=layer).signed(read)[0].cpu().numpy() for layer in layers]
        decision = read.decisions[0]
        return LayerSaliency(
            read.encoded[0],
            decision.target.label,
            decision.label,
            decision.probabilities.cpu().numpy(),
            method.name,
            self._provenance(method) | {"parameters": method.parameters() | {"layer": "every"}},
            scores[:, 0].cpu().numpy(),
            np.stack(signed),
        )

    def map(
        self,
        texts: Iterable[Text],
        targets: Any = None,
        batch_size: int = 32,
        progress: Progress = True,
        cancel: Event | None = None,
    ) -> Saliencies:
        """Explain many texts, batched by length; results come in the order given.

        `targets` is one target for all, or a list with one for each text. A generator is read as it goes.
        """
        name = self.method.name
        found = _explain_many({name: self}, texts, targets, batch_size, progress, cancel)[name]
        cut = [i for i, saliency in enumerate(found) if saliency.row.dropped] if self.long == "window" else []
        for i in track(cut, progress, cancel):
            found.items[i] = self(found[i].text, _target(targets, i))
        return found

    def _explain(self, encoded: Encoded, targets: Sequence[Any]) -> list[Saliency]:
        with self.subject.lock:
            read = trace.record(self.subject, encoded, targets, self.method.needs, self.method.layers())
            return self.read(read)

    def read(self, read: Trace) -> list[Saliency]:
        """What this method sees in a trace that is there already, a Saliency a text."""
        scores, signed = self.method.scores(read), self.method.signed(read)
        return [
            self._saliency(row, read, i, scores[i, : len(row)], signed[i, : len(row)])
            for i, row in enumerate(read.encoded)
        ]

    def _saliency(self, row: Row, read: Trace, i: int, scores: Tensor, signed: Tensor) -> Saliency:
        decision = read.decisions[i]
        return Saliency(
            row,
            decision.target.label,
            decision.label,
            decision.probabilities.cpu().numpy(),
            self.method.name,
            self._provenance(self.method),
            scores.cpu().numpy(),
            signed.cpu().numpy(),
        )

    def _windowed(self, text: Text, pieces: Encoded, target: Any) -> Saliency:
        if target is None:
            target = windows.decide(self._explain(pieces, [None] * len(pieces)), self.subject)
        parts = self._explain(pieces, [target] * len(pieces))
        return windows.join(parts, self.subject)

    def _provenance(self, method: Method) -> dict[str, Any]:
        subject = self.subject
        found = {
            "model": subject.name,
            "method": method.name,
            "parameters": method.parameters(),
            "dtype": str(subject.dtype).removeprefix("torch."),
            "long": self.long,
            "versions": {"nbsal": __version__} | {name: version(name) for name in ("torch", "transformers")},
        }
        if isinstance(method, Decoded):
            found["lm"] = subject.language_head.source
        return found

    def __repr__(self) -> str:
        return f"Explainer({self.subject.name!r}, {self.method})"


def compare(
    subject: Subject,
    methods: Sequence[str | Method] | Mapping[str, str | Method],
    texts: Text | Iterable[Text],
    targets: Any = None,
    batch_size: int = 32,
    progress: Progress = True,
    cancel: Event | None = None,
) -> dict[str, Saliencies]:
    """Several methods on the same texts; each batch is run once and read by all of them.

    `methods` are names or instances, or a dict that names them.

    >>> import nbsal
    >>> many = compare(nbsal.load("demo/reviews"), ["gradcam", "simple"], ["A joy.", "A bore."])
    >>> {name: len(found) for name, found in many.items()}
    {'gradcam': 2, 'simple': 2}
    """
    if not isinstance(methods, Mapping):
        made = [catalogue.create(method) if isinstance(method, str) else method for method in methods]
        methods = {method.name: method for method in made}
        if len(methods) < len(made):
            raise InputError("Two methods have one name: name them with a dict, {'layer 3': Decoded(...), ...}.")
    explainers = {name: Explainer(subject, method) for name, method in methods.items()}
    many = [texts] if isinstance(texts, str | tuple) else texts
    return _explain_many(explainers, many, targets, batch_size, progress, cancel)


def _explain_many(
    explainers: dict[str, Explainer],
    texts: Iterable[Text],
    targets: Any,
    batch_size: int,
    progress: Progress,
    cancel: Event | None,
) -> dict[str, Saliencies]:
    """Every explainer on every text, a shared trace a batch. All explainers share one subject."""
    subject = next(iter(explainers.values())).subject
    needs = frozenset().union(*(e.method.needs for e in explainers.values()))
    layers = set[int]().union(*(e.method.layers() for e in explainers.values()))
    size = 1 if subject.one_at_a_time else batch_size
    if size < 1:
        raise InputError(f"batch_size must be at least 1, not {batch_size}.")
    results: dict[str, dict[int, Saliency]] = {name: {} for name in explainers}
    with Meter(len(texts) if isinstance(texts, Sequence) else None, progress, cancel) as meter:
        try:
            for places, encoded in _batches(subject, texts, size, next(iter(explainers.values())).long):
                meter.check()
                wanted = [_target(targets, place) for place in places]
                with subject.lock:
                    read = trace.record(subject, encoded, wanted, needs, layers)
                    for name, explainer in explainers.items():
                        results[name].update(zip(places, explainer.read(read), strict=True))
                meter.step(len(places))
        except Cancelled as stopped:
            stopped.partial = {name: _in_order(found) for name, found in results.items()}
            raise
    return {name: _in_order(found) for name, found in results.items()}


def _batches(subject: Subject, texts: Iterable[Text], size: int, long: str) -> Iterator[tuple[list[int], Encoded]]:
    """Batches of texts of like lengths, with their places in the order given."""
    source, first = iter(texts), 0
    while ahead := list(islice(source, size * SORTED_AHEAD)):
        encoded = subject.encode(ahead)
        order = sorted(range(len(ahead)), key=lambda i: len(encoded[i]))
        for start in range(0, len(order), size):
            members = order[start : start + size]
            yield [first + i for i in members], Encoded([encoded[i] for i in members], encoded.pad_id)
        first += len(ahead)


def _target(targets: Any, place: int) -> Any:
    if not isinstance(targets, list):
        return targets
    if place >= len(targets):
        raise InputError(f"targets has {len(targets)} entries, fewer than there are texts.")
    return targets[place]


def _in_order(found: dict[int, Saliency]) -> Saliencies:
    return Saliencies([found[place] for place in sorted(found)])
