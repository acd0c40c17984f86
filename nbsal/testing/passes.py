"""Check that a method runs as many passes through the model as its `cost` says."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from nbsal.explain.explainer import Explainer
from nbsal.model.subject import Subject
from nbsal.passes.lrp.mode import proxy_of
from nbsal.testing.scores import TEXTS, require, targets


@dataclass
class Passes:
    """Passes of texts through a model: forwards, backwards, and of relevance."""

    forward: int = 0
    backward: int = 0
    relevance: int = 0


class CountingSubject(Subject):
    """A subject that counts the passes through its model and through copies of it."""

    passes: Passes

    @classmethod
    def of(cls, subject: Subject) -> "CountingSubject":
        """The same subject, with counts of its own."""
        counting, pooling = object.__new__(cls), subject.probed_pooling  # measured once a model, by passes of its own
        vars(counting).update(vars(subject), passes=Passes(), probed_pooling=pooling)
        counting._copies = {}  # these count for themselves only
        return counting

    def logits(self, inputs: dict[str, Any]) -> Tensor:
        counted = self.passes.forward + len(inputs["input_ids"])
        output = super().logits(inputs)
        self.passes.forward = counted  # once, also where the model's own hook counted it
        proxy = proxy_of(output)
        with torch._C.DisableTorchFunction():  # the relevance mode has no rule for hooks
            if output.requires_grad:
                output.register_hook(self._count_backward)  # type: ignore[no-untyped-call]
            if proxy is not None:
                proxy.register_hook(self._count_relevance)  # type: ignore[no-untyped-call]
        return output

    def count_call(self, model: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Count a call of the model itself, which does not come through `logits`."""
        inputs = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
        self.passes.forward += 1 if inputs is None else len(inputs)

    def _count_backward(self, gradient: Tensor) -> None:
        self.passes.backward += len(gradient)

    def _count_relevance(self, relevance: Tensor) -> None:
        self.passes.relevance += len(relevance)


def cost_is_true(explain: Explainer, text: str = TEXTS[0]) -> None:
    """The passes for one text and one decision are those that the method's `cost` says."""
    counting = CountingSubject.of(explain.subject)
    counted = Explainer(counting, explain.method, long=explain.long)
    cost = counted.method.cost
    forwards, backwards, relevance = cost.passes(counted.method.sizes(counting.encode(text)[0]))
    hook = counting.model.register_forward_hook(counting.count_call, with_kwargs=True)
    try:
        counted(text, targets(explain.subject)[0])
    finally:
        hook.remove()
    passes = counting.passes
    ran = f"{passes.forward} forward, {passes.backward} backward and {passes.relevance} relevance passes were run"
    says = f"the cost says {'at most ' * cost.at_most}{forwards}, {backwards} and {relevance}"
    enough = forwards / 3 < passes.forward <= forwards if cost.at_most else passes.forward == forwards
    require(enough and (passes.backward, passes.relevance) == (backwards, relevance), f"{ran}, {says}")
