"""Simple, Smooth and Integrated exactly as AllenNLP Interpret (Wallace et al. 2019) computed them, bugs included.

Gradients are those of the target's cross-entropy loss at the word embeddings; position and segment embeddings are left
alone. The features of a token are summed before the absolute value is taken, and a text's scores sum to 1.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from nbsal.methods.attention import normalise_rows
from nbsal.methods.base import Method, register
from nbsal.methods.cost import Cost
from nbsal.methods.rng import text_rng
from nbsal.model.running.checks import check_layout
from nbsal.model.running.layers import forward_mode
from nbsal.model.subject import Subject
from nbsal.passes.trace import Trace
from nbsal.support.errors import InputError


@dataclass(frozen=True)
class Interpreter(Method):
    """One of AllenNLP Interpret's gradient interpreters."""

    family = "gradient"
    needs = frozenset({"forward"})
    paper = "Wallace et al. 2019 (AllenNLP Interpret), as in the released code"
    promise = frozenset({"nonnegative", "sums_to_1", "about_target"})

    def resolve(self, subject: Subject) -> Self:
        if len(subject.labels) == 1:
            message = f"{self.name} needs at least two labels for its cross-entropy loss; {subject.name} has one."
            raise InputError(message, argument="method", value=self.name)
        return super().resolve(subject)

    def scores(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: normalise_rows(self.feature_sums(trace).abs()))

    @abstractmethod
    def feature_sums(self, trace: Trace) -> Tensor:
        """The sum of each token's features, [text, position], before the absolute value is taken."""


@register("simple@allennlp", cost=Cost(2, backwards=1))
@dataclass(frozen=True)
class AllenNLPSimple(Interpreter):
    """Gradient of each token times the embedding of the first token, since the program drops one axis too many."""

    def feature_sums(self, trace: Trace) -> Tensor:
        embedded, gradient = embedding_gradient(trace, lambda words: words)
        return (gradient * embedded[:, :1]).sum(-1)


@register("smooth@allennlp", cost=Cost(11, backwards=10), promise=Interpreter.promise | {"seeded"})
@dataclass(frozen=True)
class AllenNLPSmooth(Interpreter):
    """Mean gradient over ten noisy copies of the embeddings, with noise of 0.01 of their range.

    Where only LayerNorms read the embeddings (BERT, RoBERTa, GPT-2), the features of such a gradient always sum to
    zero, because a LayerNorm ignores the mean of its input. The scores are then nothing but rounding errors.
    """

    seed: int = 0

    def feature_sums(self, trace: Trace) -> Tensor:
        generators = [text_rng(self.seed, row) for row in trace.encoded]

        def add_noise(words: Tensor) -> Tensor:
            noise = torch.zeros_like(words)
            for i, (row, rng) in enumerate(zip(trace.encoded, generators, strict=True)):
                text = words[i, : len(row)]
                normal = torch.from_numpy(rng.standard_normal(text.shape)).to(text)
                noise[i, : len(row)] = normal * 0.01 * (text.max() - text.min())
            return words + noise

        return torch.stack([embedding_gradient(trace, add_noise)[1] for _ in range(10)]).mean(0).sum(-1)


@register("integrated@allennlp", cost=Cost(11, backwards=10))
@dataclass(frozen=True)
class AllenNLPIntegrated(Interpreter):
    """Ten steps from zero word embeddings, each evaluated at its left end, so the text itself is never reached."""

    def feature_sums(self, trace: Trace) -> Tensor:
        runs = [embedding_gradient(trace, lambda words, share=step / 10: words * share) for step in range(10)]  # type: ignore[misc]
        return (torch.stack([gradient for _, gradient in runs]).mean(0) * runs[0][0]).sum(-1)


def embedding_gradient(trace: Trace, change: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """The word embeddings of a trace's texts, and the gradient of the loss at `change(embeddings)`."""
    subject = trace.subject
    trace.meter.check()
    with forward_mode(gradients=True):
        with _changed_embeddings(subject.twin, change) as embeddings:
            logits = subject.logits(subject.inputs(trace.encoded))
        check_layout("word embeddings", [embeddings[1].shape[:2]], trace.encoded, subject)
        loss = torch.zeros((), dtype=logits.dtype, device=logits.device)
        for padded, row, decision in zip(logits, trace.encoded, trace.decisions, strict=True):
            output = padded[: len(row)] if padded.ndim > 1 else padded
            loss = loss - decision.target.value(output.log_softmax(0 if subject.task == "span" else -1))
        (gradient,) = torch.autograd.grad(loss, embeddings[1])
    return embeddings[0], gradient


@contextmanager
def _changed_embeddings(model: Any, change: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """Change the word embeddings of a forward pass; the list it gives receives the original and the changed ones."""
    embeddings: list[Tensor] = []

    def change_output(module: Any, args: Any, output: Tensor) -> Tensor:
        embeddings[:] = [output.detach(), change(output.detach()).requires_grad_(True)]
        return embeddings[1]

    handle = model.get_input_embeddings().register_forward_hook(change_output)
    try:
        yield embeddings
    finally:
        handle.remove()
