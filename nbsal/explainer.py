"""Explainer: a subject and a method, asked about one text, many, or every layer at once."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from itertools import islice
from threading import Event
from typing import Any

import torch
from torch import Tensor

from nbsal import __version__, room, trace, windows
from nbsal.encoding import Encoded, Row, Text, several
from nbsal.errors import InputError, NbsalError, UnknownName
from nbsal.methods import catalogue
from nbsal.methods.base import LayerMethod, Method, counted
from nbsal.methods.decoding import Decoded
from nbsal.progress import Meter, Progress
from nbsal.saliency import Comparison, Floats, LayerSaliency, Saliencies, Saliency
from nbsal.subject import Subject
from nbsal.trace import Trace

LONG = ("truncate", "window")
USUAL = 128  # tokens; longer texts count for several in a batch
PADDING = 256  # tokens that may be padded; beyond, another batch costs less
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
        if not isinstance(subject, Subject):
            raise InputError(f"Explain a subject, nbsal.load(model), not {type(subject).__name__}.")
        made = _method(method, **options)
        if long not in LONG:
            raise UnknownName("way to read long texts", long, LONG)
        self.subject = subject
        self.method = made.resolve(subject)
        self.long = long

    @property
    def reader(self) -> Subject:
        """The subject as the method reads it."""
        return self.method.reader(self.subject)

    def __call__(self, text: Text, target: Any = None) -> Saliency:
        """Explain one text, or a pair; `target` None is what the model predicts."""
        return together({"": self}, self._one(text), [target])[""][0]

    def ids(
        self, input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None, target: Any = None
    ) -> Saliency:
        """Explain token ids made elsewhere, one sequence."""
        encoded = self.subject.encode_ids(input_ids, attention_mask, token_type_ids)
        if len(encoded) != 1:
            raise InputError(f"explain.ids takes one sequence, not {len(encoded)}.")
        return together({"": self}, encoded, [target])[""][0]

    def every_layer(self, text: Text, target: Any = None) -> LayerSaliency:
        """The same explanation at every layer, from one forward and one backward.

        >>> import nbsal
        >>> Explainer(nbsal.load("demo/reviews"), "gradcam").every_layer("A joy.").scores.shape
        (7, 5)
        """
        method, encoded = self.method, self._one(text)
        if not isinstance(method, LayerMethod | Decoded):
            raise InputError(f"{method.name} does not read one hidden layer: it has no layers to go through.")
        if self._windowed(encoded[0]):
            raise InputError('every_layer reads one window only: explain a shorter text, or use long="truncate".')
        layers = range(self.subject.depth + 1)
        with self.subject.lock, room.needed():
            read = trace.record(self.reader, encoded, [target], method.needs)
            scores = method.every(read, layers)[:, 0]
            inner = method.method if isinstance(method, Decoded) else method
            signed = torch.stack([replace(inner, layer=layer).signed(read)[0] for layer in layers])
        found = self._saliency(read, 0, scores, signed, {})
        settings = found.provenance["parameters"] | {"layer": "every"}
        shared = {name: getattr(found, name) for name in found.__dataclass_fields__ if name != "provenance"}
        return LayerSaliency(**shared, provenance=found.provenance | {"parameters": settings})

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
        try:
            return _explain_many({name: self}, texts, targets, batch_size, progress, cancel)[name]
        except NbsalError as stopped:
            stopped.partial = stopped.partial and stopped.partial[name]
            raise

    def read(self, read: Trace) -> list[Saliency]:
        """What this method sees in a trace that is there already, a Saliency a text."""
        scores, signed, notes = self.method.total(read), self.method.signed(read), self.method.notes(read)
        return [
            self._saliency(read, i, scores[i, : len(row)], signed[i, : len(row)], notes[i])
            for i, row in enumerate(read.encoded)
        ]

    def _windowed(self, row: Row) -> bool:
        """Whether it reads that text by windows."""
        return bool(row.dropped) and self.long == "window"

    def _whole(self, text: Encoded, target: Any, meter: Meter) -> Saliency:
        """One text, by windows if it is so read."""
        if not self._windowed(text[0]):
            return together({"": self}, text, [target], meter)[""][0]
        pieces = windows.over(self.subject, text[0].text)
        alone = [pieces.encoded[i : i + 1] for i in range(len(pieces.places))]
        if target is None:
            read = [trace.record(self.reader, piece, needs=()).decisions[0] for piece in alone]
            target = windows.decide([_numbers(decision.probabilities) for decision in read])
        parts = [together({"": self}, piece, [target], meter.part(1 / len(alone), 1))[""][0] for piece in alone]
        return windows.join(pieces, parts, self.subject)

    def _one(self, text: Text) -> Encoded:
        if isinstance(text, list):
            raise InputError("Explain one text at a time, or many with explain.map(texts).")
        return self.subject.encode(text)

    def _saliency(self, read: Trace, i: int, scores: Tensor, signed: Tensor, note: dict[str, Any]) -> Saliency:
        row, decision = read.encoded[i], read.decisions[i]
        return Saliency(
            row=row,
            target=decision.target.label,
            prediction=decision.label,
            probabilities=_numbers(decision.probabilities),
            method=self.method.name,
            provenance=self.provenance | {"target": decision.target.label, "dropped": row.dropped} | note,
            scores=_numbers(scores),
            signed=_numbers(signed),
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """What is said of every explanation it gives: model, method and settings, precision, versions."""
        found = {
            "model": self.subject.name,
            "method": self.method.name,
            "parameters": self.method.parameters(),
            "dtype": str(self.reader.dtype).removeprefix("torch."),
            "long": self.long,
            "versions": _versions(),
        }
        if isinstance(self.method, Decoded):
            found["lm"] = self.subject.language_head.source
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
) -> Comparison:
    """Several methods on the same texts; each batch is run once and read by all of them.

    `methods` are names or instances, or a dict that names them. The result is a dict, and one frame of all.

    >>> import nbsal
    >>> many = compare(nbsal.load("demo/reviews"), ["gradcam", "simple"], ["A joy.", "A bore."])
    >>> {name: len(found) for name, found in many.items()}
    {'gradcam': 2, 'simple': 2}
    >>> sorted(many.to_frame()["method"].unique())
    ['gradcam', 'simple']
    """
    if not isinstance(methods, Mapping):
        if isinstance(methods, str) or not isinstance(methods, Iterable):
            raise InputError(
                f"methods is a list of names or instances, or a dict that names them, not {methods!r:.60}."
            )
        made = [_method(method) for method in methods]
        methods = {method.name: method for method in made}
        if len(methods) < len(made):
            raise InputError("Two methods have one name: name them with a dict, {'layer 3': Decoded(...), ...}.")
    if not methods:
        raise InputError("There is no method to compare: name at least one.")
    explainers = {name: Explainer(subject, method) for name, method in methods.items()}
    many = [texts] if isinstance(texts, str | tuple) else texts
    return Comparison(_explain_many(explainers, many, targets, batch_size, progress, cancel))


def _method(given: Any, **options: Any) -> Method:
    """A method by name with its settings, or an instance as it is."""
    if isinstance(given, str):
        return catalogue.create(given, **options)
    if not isinstance(given, Method):
        raise InputError(f"A method is a catalogue name or an instance such as nbsal.GradCAM(), not {given!r:.60}.")
    if options:
        raise InputError(f"Settings go into the method itself: {type(given).__name__}({', '.join(options)}=...).")
    return given


def _explain_many(
    explainers: dict[str, Explainer],
    texts: Iterable[Text],
    targets: Any,
    batch_size: int,
    progress: Progress,
    cancel: Event | None,
) -> dict[str, Saliencies]:
    """Every explainer on every text, a shared trace a batch. All explainers share one subject."""
    texts, size = several(texts), counted(batch_size, "batch_size")
    targets = targets.tolist() if hasattr(targets, "tolist") else targets
    if isinstance(targets, list) and isinstance(texts, Sequence) and len(targets) != len(texts):
        raise InputError(f"There are {len(targets)} targets for {len(texts)} texts.")
    results: dict[str, dict[int, Saliency]] = {name: {} for name in explainers}
    with Meter(len(texts) if isinstance(texts, Sequence) else None, progress, cancel) as meter:
        try:
            for places, encoded in _batches(explainers.values(), texts, size):
                meter.check()
                wanted = [_target(targets, place) for place in places]
                done = meter.done + len(places)
                part = meter.part(len(places), len(explainers))
                for name, found in together(explainers, encoded, wanted, part).items():
                    results[name].update(zip(places, found, strict=True))
                meter.reach(done)
        except NbsalError as stopped:
            stopped.partial = {name: _in_order(found) for name, found in results.items()}
            raise
    return {name: _in_order(found) for name, found in results.items()}


def together(
    explainers: Mapping[str, Explainer], encoded: Encoded, targets: Sequence[Any], meter: Meter | None = None
) -> dict[str, list[Saliency]]:
    """What explainers of one subject see in one batch, from one trace for all who read it the same way.

    `meter` counts explainers; those that take long tell it of parts of a step. A batch that does not fit into memory
    goes in parts, and texts that are read by windows go by themselves.
    """
    meter = meter or Meter(None)
    long = [i for i, row in enumerate(encoded) if any(one._windowed(row) for one in explainers.values())]
    if long:
        return _beside_windows(explainers, encoded, targets, long, meter)

    def some(places: Sequence[int]) -> dict[str, list[Saliency]]:
        worth = len(explainers) * len(places) / len(encoded)
        meter.reach(places[0] * len(explainers) / len(encoded))
        part = Encoded([encoded[i] for i in places], encoded.pad_id)
        return _at_once(explainers, part, [targets[i] for i in places], meter.part(worth, len(explainers)))

    parts = room.in_parts(range(len(encoded)), some)
    return {name: [saliency for part in parts for saliency in part[name]] for name in explainers}


def _beside_windows(
    explainers: Mapping[str, Explainer], encoded: Encoded, targets: Sequence[Any], long: Sequence[int], meter: Meter
) -> dict[str, list[Saliency]]:
    found: dict[str, dict[int, Saliency]] = {name: {} for name in explainers}
    rest, share = [i for i in range(len(encoded)) if i not in long], 1 / len(encoded)
    if rest:
        batch = Encoded([encoded[i] for i in rest], encoded.pad_id)
        part = meter.part(len(explainers) * len(rest) * share, len(explainers))
        for name, told in together(explainers, batch, [targets[i] for i in rest], part).items():
            found[name].update(zip(rest, told, strict=True))
    for i in long:
        for name, explain in explainers.items():
            found[name][i] = explain._whole(encoded[i : i + 1], targets[i], meter.part(share, 1))
    return {name: [told[i] for i in range(len(encoded))] for name, told in found.items()}


def _at_once(
    explainers: Mapping[str, Explainer], encoded: Encoded, targets: Sequence[Any], meter: Meter
) -> dict[str, list[Saliency]]:
    groups: dict[Subject, list[str]] = {}
    for name, explain in explainers.items():
        groups.setdefault(explain.reader, []).append(name)
    found: dict[str, list[Saliency]] = {}
    with next(iter(explainers.values())).subject.lock:
        for names in groups.values():
            read = _shared([explainers[name] for name in names], encoded, targets)
            read.meter = meter
            for name in names:
                meter.check()
                found[name] = explainers[name].read(read)
                meter.reach(len(found))
    return found


def _shared(explainers: Sequence[Explainer], encoded: Encoded, targets: Sequence[Any]) -> Trace:
    """One trace that holds what all of them read."""
    needs = frozenset[str]().union(*(explainer.method.needs for explainer in explainers))
    layers = set[int]().union(*(explainer.method.layers(explainer.subject.depth) for explainer in explainers))
    return trace.record(explainers[0].reader, encoded, targets, needs, layers)


def _batches(
    explainers: Collection[Explainer], texts: Iterable[Text], size: int
) -> Iterator[tuple[list[int], Encoded]]:
    """Batches of texts of like lengths, with their places in the order given."""
    source, first, subject = iter(texts), 0, next(iter(explainers)).subject
    while ahead := list(islice(source, size * SORTED_AHEAD)):
        encoded = subject.encode(ahead, first=first)
        for places, batch in by_length(explainers, encoded, size):
            yield [first + place for place in places], batch
        first += len(ahead)


def by_length(explainers: Collection[Explainer], encoded: Encoded, size: int) -> Iterator[tuple[list[int], Encoded]]:
    """Batches of texts of like lengths, with their places, for explainers of one subject.

    Long texts count for several, since a batch of them would fill the memory of a laptop: by their length, or by its
    square where somebody reads pairs of positions. A batch ends, too, where the next text would have more padded than
    another batch costs; texts that are read by windows are batches of their own.
    """
    one_at_a_time = next(iter(explainers)).subject.one_at_a_time
    power = 2 if any(explainer.method.pairwise for explainer in explainers) else 1

    def apart(place: int) -> bool:
        return one_at_a_time or any(explainer._windowed(encoded[place]) for explainer in explainers)

    def full(members: list[int], place: int) -> bool:
        longest, count = len(encoded[place]), len(members) + 1
        padding = sum(longest - len(encoded[i]) for i in members)
        crowded = count * max(1.0, longest / USUAL) ** power > size
        return apart(place) or crowded or padding > PADDING

    for members in room.packed(sorted(range(len(encoded)), key=lambda i: len(encoded[i])), full):
        yield members, Encoded([encoded[i] for i in members], encoded.pad_id)


def _target(targets: Any, place: int) -> Any:
    if not isinstance(targets, list):
        return targets
    if place >= len(targets):
        raise InputError(f"targets has {len(targets)} entries, fewer than there are texts.")
    return targets[place]


def _in_order(found: dict[int, Saliency]) -> Saliencies:
    return Saliencies([found[place] for place in sorted(found)])


def _numbers(tensor: Tensor) -> Floats:
    """As numpy has it: half precision, which it lacks in part, as float32."""
    tensor = tensor.detach().cpu()
    return (tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()).numpy()


@cache
def _versions() -> dict[str, str]:
    return {"nbsal": __version__} | {name: version(name) for name in ("torch", "transformers")}
