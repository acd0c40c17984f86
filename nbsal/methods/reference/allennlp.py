"""Simple, Smooth and Integrated exactly as AllenNLP Interpret (Wallace et al. 2019) ran them, defects included.

Gradients are of the loss of the target (cross entropy), taken at the word embeddings: positions and segments stay as
they are. A token's features are summed up before their absolute value is taken, and a text's scores sum to 1.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from nbsal.errors import InputError
from nbsal.methods.base import Method, register
from nbsal.methods.rng import text_rng
from nbsal.model import architecture
from nbsal.model.subject import Subject
from nbsal.trace import Trace

PAPER = "Wallace et al. 2019 (AllenNLP Interpret), as published"
PROMISE = "0 or more; a text's scores sum to 1, special tokens included"


@dataclass(frozen=True)
class Interpreter(Method):
    """One of AllenNLP Interpret's gradient interpreters."""

    def resolve(self, subject: Subject) -> Self:
        if len(subject.labels) == 1:
            raise InputError(f"{self.name} reads the gradient of a cross entropy: {subject.name} has one label only.")
        return self

    def scores(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: self._normalised(trace))

    @abstractmethod
    def summed(self, trace: Trace) -> Tensor:
        """A number for each token, [text, position], before its absolute value is taken."""

    def _normalised(self, trace: Trace) -> Tensor:
        sizes = self.summed(trace).abs()
        return sizes / sizes.sum(-1, keepdim=True).clamp_min(torch.finfo(sizes.dtype).tiny)


@register(
    "simple@allennlp",
    family="gradient",
    needs={"forward"},
    paper=PAPER,
    cost="2, and 1 backward",
    promise=PROMISE,
)
@dataclass(frozen=True)
class AllenNLPSimple(Interpreter):
    """Every token's gradient times the embedding of the text's first token: the program strips one axis too many."""

    def summed(self, trace: Trace) -> Tensor:
        embedded, gradient = at_embeddings(trace, lambda words: words)
        return (gradient * embedded[:, :1]).sum(-1)


@register(
    "smooth@allennlp",
    family="gradient",
    needs={"forward"},
    paper=PAPER,
    cost="11, and 10 backwards",
    promise=f"{PROMISE}; rounding where LayerNorms read the embeddings; drawn from (seed, text)",
)
@dataclass(frozen=True)
class AllenNLPSmooth(Interpreter):
    """The plain gradient over ten noisy copies, sigma 0.01 of the spread of the text's embeddings; nothing multiplied.

    Where LayerNorms alone read the embeddings (BERT, RoBERTa, GPT-2), the features of such a gradient sum to zero
    whatever the model has learnt, since a norm does not feel its mean: the scores are the rounding of the arithmetic.
    """

    seed: int = 0

    def summed(self, trace: Trace) -> Tensor:
        drawings = [text_rng(self.seed, row) for row in trace.encoded]

        def noisy(words: Tensor) -> Tensor:
            noise = torch.zeros_like(words)
            for own, given, row, chance in zip(noise, words, trace.encoded, drawings, strict=True):
                text = given[: len(row)]
                drawn = torch.from_numpy(chance.standard_normal(text.shape)).to(text)
                own[: len(row)] = drawn * 0.01 * (text.max() - text.min())
            return words + noise

        return torch.stack([at_embeddings(trace, noisy)[1] for _ in range(10)]).mean(0).sum(-1)


@register(
    "integrated@allennlp",
    family="gradient",
    needs={"forward"},
    paper=PAPER,
    cost="11, and 10 backwards",
    promise=PROMISE,
)
@dataclass(frozen=True)
class AllenNLPIntegrated(Interpreter):
    """Ten steps from a zero word embedding, each read at its left end, the last one short of the text."""

    def summed(self, trace: Trace) -> Tensor:
        runs = [at_embeddings(trace, lambda words, share=step / 10: words * share) for step in range(10)]  # type: ignore[misc]
        return (torch.stack([gradient for _, gradient in runs]).mean(0) * runs[0][0]).sum(-1)


def at_embeddings(trace: Trace, change: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """The word embeddings of a trace's texts, and the gradient of the loss where they are changed."""
    subject = trace.subject
    trace.meter.check()
    with subject.lock, torch.inference_mode(False), torch.enable_grad(), architecture.eval_mode(subject.model):
        with _changed(subject.model, change) as seen:
            logits = subject.logits(subject.inputs(trace.encoded))
        loss = torch.zeros((), dtype=logits.dtype, device=logits.device)
        for given, row, decision in zip(logits, trace.encoded, trace.decisions, strict=True):
            own = given[: len(row)] if given.ndim > 1 else given
            loss = loss - decision.target.value(own.log_softmax(0 if subject.task == "span" else -1))
        (gradient,) = torch.autograd.grad(loss, seen[1])
    return seen[0], gradient


@contextmanager
def _changed(model: Any, change: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """The model reading changed word embeddings; a list that fills with the embeddings and what became of them."""
    seen: list[Tensor] = []

    def leave(module: Any, args: Any, output: Tensor) -> Tensor:
        seen[:] = [output.detach(), change(output.detach()).requires_grad_(True)]
        return seen[1]

    handle = model.get_input_embeddings().register_forward_hook(leave)
    try:
        yield seen
    finally:
        handle.remove()
