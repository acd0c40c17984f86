"""Explainers that return stored explanations, so that evaluations can use a corpus without explaining it again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from nbsal.corpus.folder.manifest import RunSettings
from nbsal.evaluation.cache import Cache
from nbsal.explain.explainer import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.methods.base import Method
from nbsal.methods.cost import Cost
from nbsal.model.loading.load import load
from nbsal.model.subject import Subject
from nbsal.passes.trace import Trace
from nbsal.support.errors import InputError
from nbsal.support.validation import Text


@dataclass(frozen=True)
class StoredMethod(Method):
    """A method whose scores were computed before and are in a cache; it cannot score anything else."""

    method: str  # the name under which its scores are stored

    name, family, needs, paper = "stored", "stored", frozenset(), ""
    cost, promise = Cost(0), frozenset()

    def scores(self, trace: Trace) -> Tensor:
        texts = ", ".join(repr(row.text)[:60] for row in trace.encoded[:3])
        raise InputError(
            f"The stored scores are not for the tokens that the model reads in {texts}. Leave out these rows.",
            argument="rows",
        )


def stored_explainers(
    plan: RunSettings, saliencies: Mapping[str, Sequence[Saliency]], subject: Subject | None
) -> tuple[dict[str, Explainer], list[Text], Cache]:
    """An explainer for each stored method, the texts, and a cache with their stored explanations."""
    if subject is None:
        plan.check_loadable()
        subject = load(plan.model)
    plan.check_model(subject)
    explainers, cache = {}, Cache()
    for name, stored in saliencies.items():
        explainers[name] = Explainer(subject, StoredMethod(name))
        cache.saliencies[subject, explainers[name].method] = {(saliency.row, None): saliency for saliency in stored}
    return explainers, [saliency.text for saliency in next(iter(saliencies.values()))], cache
