"""What is explained of a model's output: a weighted sum of numbers, each made of one logit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbsal.support.lazy import Tensor, torch


@dataclass(frozen=True)
class Contrast:
    """The difference between the logits of two targets."""

    first: Any
    second: Any


def contrast(first: Any, second: Any) -> Contrast:
    """Explain why one target rather than another: the difference of their logits.

    Args:
        first: The target that is explained: a label, a number of a class, a token, a span.
        second: The one that it is compared with.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> explain("A joy.", target=nbsal.contrast("positive", "negative")).target
    'positive - negative'
    """
    return Contrast(first, second)


@dataclass(frozen=True)
class Target:
    """The explained output of one text: its label, and the numbers it sums, as (index, weight) pairs.

    `number` says what of a logit: the "logit" itself, the "logprob" of that outcome, or its "logit-prob", the logarithm
    of its odds.
    """

    label: str
    terms: tuple[tuple[tuple[int, ...], float], ...]
    number: str = "logit"

    def ends(self) -> "list[Target]":
        return [Target(self.label, (term,), self.number) for term in self.terms]

    def at(self, rows: Mapping[int, int]) -> "Target":
        """The same target where the logits of some positions alone were computed, `rows` by position."""
        terms = tuple(((rows[position], *rest), weight) for (position, *rest), weight in self.terms)
        return Target(self.label, terms, self.number)

    def value(self, logits: Tensor) -> Tensor:
        """The explained number, from the logits of a text; trailing axes are kept."""
        return torch.stack([weight * self._number(logits, index) for index, weight in self.terms]).sum(0)

    def relevance(self, logits: Tensor) -> Tensor:
        """The number whose gradient at the logits is the relevance that they start with.

        A difference starts as one relevance, of 1: each logit gets a share by its size. Two relevances would cancel.
        """
        if not self.is_contrast:
            return self.value(logits)
        outputs = torch.stack([logits[index] for index, _ in self.terms])
        sizes = outputs.detach().abs() * outputs.new_tensor([abs(weight) for _, weight in self.terms])
        return outputs @ (sizes / sizes.sum().clamp_min(torch.finfo(sizes.dtype).tiny))

    @property
    def is_contrast(self) -> bool:
        """Whether some outputs count against others."""
        return any(weight < 0 for _, weight in self.terms)

    def _number(self, logits: Tensor, index: tuple[int, ...]) -> Tensor:
        if self.number == "logit":
            return logits[index]
        outcomes = logits[index[:-1]].movedim(0, -1)  # trailing axes come first
        return number_of(outcomes, torch.full(outcomes.shape[:-1], index[-1]), self.number)


DIVERGENCE = "divergence"  # of a whole distribution from that of the whole text, for methods that hide
BEST = "best"  # the id of the likeliest token in the place of another one, beside the numbers of that one
AGREEMENT = "agreement"  # whether a server writes a word again; it needs no log-probabilities
NUMBERS = ("logprob", "logit", "logit-prob", DIVERGENCE, AGREEMENT)
_SURE = -1e-12  # the largest log-probability whose odds are finite


def number_of(logits: Tensor, outcomes: Tensor, number: str) -> Tensor:
    """The number of an outcome of each row of logits, [row, outcome] or [outcome]."""
    at = outcomes.to(logits.device)[..., None]
    if number == "logit":
        return logits.gather(-1, at)[..., 0]
    precise = logits if logits.dtype == torch.float64 else logits.float()
    logprob = precise.log_softmax(-1).gather(-1, at)[..., 0]
    if number == "logprob":
        return logprob
    return log_odds(logprob.double()).to(precise.dtype)


def divergence(logits: Tensor, probabilities: Tensor) -> Tensor:
    """The Jensen-Shannon divergence of outcomes from others, in nats: from 0 to log 2.

    >>> import torch
    >>> divergence(torch.tensor([[0.0, -torch.inf]]), torch.tensor([[0.0, 1.0]]))
    tensor([0.6931], dtype=torch.float64)
    """
    first, second = logits.double().softmax(-1), probabilities.double()
    entropies = [torch.special.entr(each).sum(-1) for each in ((first + second) / 2, first, second)]
    result: Tensor = (entropies[0] - (entropies[1] + entropies[2]) / 2).clamp(min=0)
    return result


def log_odds(logprob: Tensor) -> Tensor:
    """The logarithm of the odds of outcomes with those log-probabilities; finite also where the model is sure."""
    logprob = logprob.clamp(max=_SURE)
    return logprob - (-logprob.expm1()).log()


@dataclass(frozen=True)
class Decision:
    """The model's prediction for one text, its probabilities, and the target to explain."""

    label: str
    probabilities: Tensor
    target: Target
