"""Replay: stored explanations as explainers that remember them, for evaluations that ask explainers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from nbsal.corpus.manifest import Plan, weights_digest
from nbsal.errors import InputError
from nbsal.evaluation.cache import Cache
from nbsal.explainer import Explainer
from nbsal.methods.base import Method
from nbsal.model.load import load
from nbsal.model.subject import Subject
from nbsal.saliency import Saliency
from nbsal.trace import Trace
from nbsal.validation import Text


@dataclass(frozen=True)
class StoredMethod(Method):
    """Scores that were computed before; asked for others it has none."""

    method: str  # the name under which they were stored

    name, family, needs, paper = "stored", "stored", frozenset(), ""
    cost, promise = "0", "those of the method that was stored"

    def scores(self, trace: Trace) -> Tensor:
        texts = ", ".join(repr(row.text)[:60] for row in trace.encoded[:3])
        raise InputError(f"The stored scores are of other tokens than the model reads in {texts}: leave such rows out.")


def stored_explainers(
    plan: Plan, each: Mapping[str, Sequence[Saliency]], subject: Subject | None
) -> tuple[dict[str, Explainer], list[Text], Cache]:
    """An explainer for every method, the texts, and the memory of what was said of them."""
    subject = subject or load(plan.model)
    if weights_digest(subject) != plan.weights:
        raise InputError(f"{subject.name} has other weights than the model that was explained, {plan.model}.")
    members, cache = {}, Cache()
    for name, saliencies in each.items():
        members[name] = Explainer(subject, StoredMethod(name))
        cache.saliencies[subject, members[name].method] = {(saliency.row, None): saliency for saliency in saliencies}
    return members, [saliency.text for saliency in next(iter(each.values()))], cache
