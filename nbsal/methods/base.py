"""Base classes of methods, and the register of all methods."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from nbsal.methods.cost import Cost
from nbsal.methods.facts import Facts, label_of
from nbsal.model.served.served_model import Served
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row
from nbsal.passes.trace import NEEDS, Trace
from nbsal.support.errors import InputError, ModelError, UnknownName
from nbsal.support.validation import checked, real_number, whole_number

# What the scores of a method can be relied on for.
PROPERTIES = {
    "nonnegative": "0 or more",
    "signed": "positive or negative",
    "at_most_1": "at most 1 for each deciding position",
    "about_target": "depend on the target",
    "not_about_target": "do not depend on the target",
    "sums_to_1": "sum to 1",
    "sums_to_1_per_decision": "sum to 1 for each deciding position",
    "sums_to_output": "sum to the output",
    "sums_to_output_less_absorbed": "sum to the output less what is recorded as absorbed",
    "sums_to_change": "sum to the change of the output from the baseline",
    "sums_to_change_on_average": "sum to the change of the output from the baselines, within sampling error",
    "not_complete": "do not sum exactly to the change of the output from the baselines (DeepLift's should)",
    "reports_gap": "gap recorded in the provenance",
    "conserves_relevance": "relevance has the same total in every layer",
    "same_per_type": "the same for every occurrence of a token",
    "zero_at_special": "0 at special tokens",
    "zero_at_special_in_layer_0": "0 at special tokens at layer 0",
    "zero_at_first": "0 at the first position",
    "zero_at_decision": "0 at the deciding position",
    "seeded": "random, fixed by the seed and the text",
}


T = TypeVar("T")
Check = Callable[[Any, str], Any]  # of a value and its name: the value to use, or an InputError


def setting(default: T, check: Check) -> T:
    """A setting of a method, which `resolve` checks; None stands for a default and is not checked."""
    value: T = field(default=default, metadata={"check": check})
    return value


def one_of(*choices: object) -> Check:
    """A check that a setting is one of some values."""

    def check(value: Any, name: str) -> Any:
        if value not in choices:
            raise UnknownName(name, value, choices)
        return value

    return check


def satisfies(rule: str, holds: Callable[[float], bool]) -> Check:
    """A check that a setting is a number for which a rule holds; `rule` says in the error what it must be."""

    def check(value: Any, name: str) -> Any:
        if not holds(real_number(value, name)):
            raise InputError(f"{name} must be {rule}, not {value!r}.", argument=name, value=value)
        return value

    return check


class Method(ABC):
    """A way to turn a trace into one score for each position."""

    name: ClassVar[str]
    family: ClassVar[str]
    needs: ClassVar[frozenset[str]]  # the parts of a trace that it reads
    paper: ClassVar[str]
    cost: ClassVar[Cost]
    promise: ClassVar[frozenset[str]]  # names in PROPERTIES
    facts: ClassVar[Facts] = Facts()  # of its own: a class that is registered under another name inherits none
    hides: ClassVar[bool] = False  # whether it only hides parts of the text, so that a server's model can be explained
    per_end: ClassVar[bool] = False  # whether the two ends of a span are explained separately and the scores added
    shares: ClassVar[str] = ""  # by tokens of a reply, where what comes later changes nothing: the "pass" or "graph"
    linear: ClassVar[bool] = False  # whether the scores of a sum of targets are the sum of their scores
    averages_span: ClassVar[bool] = False  # whether positions, by the weights of a target's terms, are explained as one
    sums_hops: ClassVar[bool] = False  # whether scores followed through a reply are sums, and not shares of 1
    by_block: ClassVar[bool] = False  # whether `Trace.blocks` is all that it reads, so that long texts need less memory

    def subject_for(self, subject: Subject) -> Subject:
        """The subject that this method runs; methods that run the same one share a trace."""
        return subject

    def resolve(self, subject: Subject) -> Self:
        """This method with all defaults filled in for that subject; raises an error if it cannot explain it."""
        values = {}
        # Looked up, since a plug-in's method need not be a dataclass.
        for name, each in getattr(self, "__dataclass_fields__", {}).items():
            check = each.metadata.get("check")
            if check is not None and (value := getattr(self, name)) is not None:
                values[name] = check(value, name)
        return replace(self, **values) if values else self  # type: ignore[type-var]

    def layers(self, depth: int) -> set[int]:
        """The hidden layers that this method reads."""
        return set()

    @property
    def pairwise(self) -> bool:
        """Whether memory grows with the square of a text's length, since every pair of positions is read."""
        return any(need.startswith("attention") or need == "relevance" for need in self.needs)

    @abstractmethod
    def scores(self, trace: Trace) -> Tensor:
        """Scores of one target, [batch, position]."""

    def total(self, trace: Trace) -> Tensor:
        """Scores of the whole target, [batch, position], computed once for each trace."""
        # Some methods have no hash. The cached tuple holds the method, so no other object can reuse its id.
        return trace.cached(("total", id(self)), partial(self._total, trace))[1]

    def _total(self, trace: Trace) -> tuple[object, Tensor]:
        if not self.per_end:
            return self, self.checked_scores(trace)
        return self, torch.stack([self.checked_scores(end) for end in trace.per_end_traces(self.needs)]).sum(0)

    def checked_scores(self, trace: Trace) -> Tensor:
        """Scores of one target, [batch, position]; of a method of your own or of another package, after a check."""
        scores = self.scores(trace)
        if not type(self).__module__.startswith("nbsal."):
            _check_scores(self.name, scores, trace)
        return scores

    def tie_breaker(self, trace: Trace) -> Tensor:
        """Numbers that order positions of equal score, [batch, position]."""
        return self.total(trace)

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        """Entries for the provenance of each text, in addition to the settings."""
        note = {"weights": "dequantised in a copy, whose outputs differ a little"} if trace.subject.dequantised else {}
        return [note] * len(trace.encoded)

    def parameters(self) -> dict[str, Any]:
        """The settings, for the provenance of a result; numpy scalars become plain numbers."""
        settings: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}

    def sizes(self, row: Row) -> dict[str, int]:
        """The numbers that `cost` depends on: settings, and the size of a text."""
        settings = {name: value for name, value in self.parameters().items() if isinstance(value, int)}
        return settings | {"tokens": len(row), "content tokens": len(row.content)}


def _check_scores(name: str, scores: Any, trace: Trace) -> None:
    """Refuse scores that are not one finite number for each token of each text; what stands at padding is not read."""
    rows, expected = list(trace.encoded), (len(trace.encoded), trace.encoded.longest)
    if not isinstance(scores, Tensor) or tuple(scores.shape) != expected:
        returned = f"a tensor of the shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else f"{scores!r:.60}"
        problem = f"returned {returned}, not a tensor with a score for each token, [batch, position] = {expected}"
    else:
        rows = [row for row, own in zip(rows, scores, strict=True) if not own[: len(row)].isfinite().all()]
        problem = "returned scores that are NaN or infinite"
    if rows:
        raise ModelError(f"The method {name!r} {problem}, for the text {rows[0].text!r:.80}.", part="scores")


@dataclass(frozen=True)
class LayerMethod(Method):
    """A method that scores the features of one hidden layer and then aggregates them at each position."""

    layer: int | None = 0  # None: the subject's default layer

    def resolve(self, subject: Subject) -> Self:
        layer = subject.default_layer if self.layer is None else whole_number(self.layer, "layer")
        if layer not in range(subject.depth + 1):
            raise UnknownName("layer", layer, range(subject.depth + 1))
        return replace(super().resolve(subject), layer=layer)

    def layers(self, depth: int) -> set[int]:
        return {self.chosen}

    @property
    def chosen(self) -> int:
        """The layer of a resolved method."""
        assert self.layer is not None, "resolve the method first"
        return self.layer

    @abstractmethod
    def features(self, trace: Trace) -> Tensor:
        """Scores of the layer's features, [batch, position, width]."""

    @abstractmethod
    def aggregate(self, features: Tensor) -> Tensor:
        """Scores of positions from scores of features, [batch, position]."""

    def scores(self, trace: Trace) -> Tensor:
        return self.aggregate(self.features(trace))

    def tie_breaker(self, trace: Trace) -> Tensor:
        return self.features(trace).sum(-1)

    def every_layer_scores(self, trace: Trace, layers: Sequence[int]) -> Tensor:
        """Scores of several layers from one trace, [layer, batch, position]."""
        return torch.stack([replace(self, layer=layer).scores(trace) for layer in layers])


REGISTER: dict[str, Callable[..., Method]] = {}
M = TypeVar("M", bound=type[Method])


def register(
    name: str,
    *,
    family: str | None = None,
    needs: Collection[str] | None = None,
    paper: str | None = None,
    cost: Cost | None = None,
    promise: Collection[str] | None = None,
) -> Callable[[M], M]:
    """Add a method class to the catalogue under a name.

    `cost` says how many passes one text takes, `promise` names the properties of the scores (see `PROPERTIES`). What
    is left out is inherited from the method that the class varies, or from its base class.
    """
    for unknown in set(promise or ()) - set(PROPERTIES):
        raise UnknownName("promise", unknown, PROPERTIES)
    for unknown in set(needs or ()) - set(NEEDS):
        raise UnknownName("needs", unknown, NEEDS)

    def add(method: M) -> M:
        arguments: dict[str, Any] = {"family": family, "needs": needs, "paper": paper, "cost": cost, "promise": promise}
        for argument, value in arguments.items():
            if value is None and not hasattr(method, argument):
                message = f"{name} varies no registered method, so it has no {argument} to inherit. Pass {argument}."
                raise InputError(message, argument=argument)
        if name in REGISTER and REGISTER[name].__module__ != method.__module__:
            message = f"{name!r} is the name of another method, of {REGISTER[name].__module__}. Choose another name."
            raise InputError(message, argument="name", value=name)
        method.name = name
        for argument, value in arguments.items():
            if value is not None:
                setattr(method, argument, frozenset(value) if argument in ("needs", "promise") else value)
        facts = vars(method).get("facts", Facts())
        method.facts = facts if facts.label else replace(facts, label=label_of(name))
        if method.hides and name not in Served.methods:
            Served.methods.append(name)
        method.__init__ = checked(method.__init__)  # type: ignore[method-assign]
        REGISTER[name] = method
        return method

    return add


def describe(promise: Collection[str]) -> str:
    """Say the properties of scores in words."""
    return "; ".join(text for name, text in PROPERTIES.items() if name in promise)
