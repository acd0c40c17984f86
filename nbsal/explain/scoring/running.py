"""What explains one reply: the model, a method, the units and their hiding; kept for what scores cannot give later."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nbsal.explain.prompt.reading import PromptWithReply, Unit
from nbsal.explain.saliency import LayerSaliency, Saliency
from nbsal.explain.scoring.lazy import ReplyExperiment, prompts
from nbsal.explain.scoring.score_matrix import ScoreMatrix
from nbsal.methods.lazy import Method, Perturbation, Subject, reply_trace, targets
from nbsal.model.target import DIVERGENCE, Target
from nbsal.model.text.tokens import Encoded, Row
from nbsal.render.html import visible
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter
from nbsal.support.validation import checked

if TYPE_CHECKING:
    from nbsal.methods.perturbation import Coalitions
    from nbsal.passes.plan import TraceJob
    from nbsal.passes.trace import Trace

SHARED = 16  # tokens of a long reply that share a forward pass
BATCH = 16  # texts that are explained together where each token needs a text of its own
# Entries of a provenance that are about one target, at one layer.
OF_ONE_TARGET = ("change", "gap", "points", "positions", "absorbed")


class Explains(Protocol):
    """What is needed of an `Explainer`, whose own file names Answer and cannot be imported here."""

    subject: Subject
    method: Method

    @property
    def method_subject(self) -> Subject: ...
    @property
    def provenance(self) -> dict[str, Any]: ...
    def explain_encoded_layers(self, encoded: Encoded, target: Any) -> LayerSaliency: ...
    def check(self, explained: Any, target: Any, passes: bool | int) -> Any: ...


@dataclass(frozen=True)
class Predictions:
    """The tokens of a reply as predictions: each is read from the position before it."""

    reading: PromptWithReply
    number: str

    def target(self, token: int) -> Target:
        """The number of a reply's token."""
        term = (self.reading.position(token), self.reading.reply_ids[token])
        return Target(self.reading.reply_tokens[token], ((term, 1.0),), self.number)

    def texts(self, shared: str, size: int | None = None) -> Iterator[tuple[range, list[Row]]]:
        """Tokens of the reply that are explained together, and the text of each.

        Where they share nothing, that is the text that ends before the token, for `size` of them. Otherwise they have
        one text, all of them unless the reply is longer than the prompt: then every few have the text that ends before
        the last of them, since a gradient through what comes later is zero and costs as much as any other. An encoder
        would read its source again each time.
        """
        count, start = len(self.reading.reply_ids), self.reading.start
        whole = shared and (count <= start or self.reading.prompt.source_size)
        size = count if whole else SHARED if shared else size or BATCH
        for first in range(0, count, size):
            tokens = range(first, min(first + size, count))
            if shared:
                row = self.reading.row if whole else self.reading.up_to(start + tokens[-1])
                yield tokens, [row] * len(tokens)
            else:
                yield tokens, [self.reading.up_to(start + token) for token in tokens]


@dataclass(frozen=True)
class ReplyMethod:
    """What explains one reply; answers of the same reply share what was run with parts left out."""

    explainer: Explains
    reading: PromptWithReply
    number: str
    units: Sequence[Unit]
    experiment: ReplyExperiment

    @property
    def method(self) -> Method:
        """The method as it is for that many units."""
        method = self.explainer.method
        return method.for_reply(len(self.units)) if isinstance(method, Perturbation) else method

    @property
    def predictions(self) -> Predictions:
        """The reply's tokens as targets."""
        return Predictions(self.reading, self.number)

    def coalitions(self, method: Perturbation) -> "Coalitions":
        """The subsets of units that a method asks for."""
        # Of the prompt alone: what is drawn from a text must not change with a later token of the reply.
        return method.coalitions(self.reading.up_to(self.reading.start), [unit.tokens for unit in self.units])

    def by_unit(self, unit_scores: Floats) -> ScoreMatrix:
        """Scores of units for each token of the reply."""
        return ScoreMatrix.of_units(unit_scores, [unit.tokens for unit in self.units], len(self.reading.row))

    def by_position(self, unit_scores: Floats) -> Floats:
        """Scores of units as scores of the tokens of prompt and reply."""
        from nbsal.methods.perturbation import scores_by_position  # imports torch

        return scores_by_position(unit_scores, [unit.tokens for unit in self.units], len(self.reading.row))

    def score_sum(self, tokens: Sequence[int]) -> Floats:
        """The scores of the sum of several tokens' numbers, over prompt and reply."""
        method = self.method
        if isinstance(method, Perturbation):
            table = self.coalitions(method)
            values = self.experiment.numbers(table, self.number)[:, list(tokens)]
            return self.by_position(method.sum_scores(table, values))
        return self._score(self.sum_target(tokens), self.reading.start + max(tokens))

    def sum_target(self, tokens: Sequence[int]) -> Target:
        """The sum of several tokens' numbers."""
        return Target("", tuple(term for token in tokens for term in self.predictions.target(token).terms), self.number)

    def _check_has_rival(self) -> None:
        """Refuse a rival to what all tokens have a part in."""
        if self.number == DIVERGENCE:
            message = 'A divergence is about all tokens that could stand there: none is a rival. Use number="logprob".'
            raise InputError(message, argument="number", value=self.number)

    def rival_target(self, token: int, rival: Any) -> Target:
        """The difference between a token's number and that of another in its place; its label is the other's name."""
        self._check_has_rival()
        index = targets.token_id(self.explainer.subject, rival, self.explainer.subject.model.config.vocab_size, "token")
        if index == self.reading.reply_ids[token]:
            message = f"The reply itself has {rival!r} there. Name another token."
            raise InputError(message, argument="token", value=rival)
        name = self.explainer.subject.tokenizer.decode([index]).strip()
        position = self.reading.position(token)
        terms = (((position, self.reading.reply_ids[token]), 1.0), ((position, index), -1.0))
        return Target(name, terms, self.number)

    def with_rival(self, token: int, rival: int) -> PromptWithReply:
        """The reply up to a token, with another one in its place."""
        ids = (*self.reading.reply_ids[:token], rival)
        return prompts.with_reply(self.explainer.subject, self.reading.prompt, ids)

    def score_rival(self, token: int, target: Target) -> Floats:
        """The scores of a difference between a token's number and that of another in its place."""
        method = self.method
        if not isinstance(method, Perturbation):
            return self._score(target, self.reading.start + token)
        # By the same subsets of units, with the other token at the end of a shorter reply.
        _, ((_, rival), _) = target.terms
        table = self.coalitions(method)
        rivals = self.experiment.with_reading(self.with_rival(token, rival)).numbers(table, self.number)
        values = self.experiment.numbers(table, self.number)[:, token] - rivals[:, -1]
        return self.by_position(method.unit_scores(table, values[:, None])[0])

    def score_rival_reply(self, rival: Any) -> Floats:
        """The scores of the whole reply minus those of another one, over the prompt alone."""
        self._check_has_rival()
        subject, prompt = self.explainer.subject, self.reading.prompt
        if not isinstance(rival, str):
            message = f"{rival!r:.60} is not another reply. Pass a text, or say with at= which token has a rival."
            raise InputError(message, argument="token", value=rival)
        ids, _ = prompts.tokenize_reply(subject, prompt, rival)
        prompts.check_length(subject, prompt, len(ids), "token", rival)
        reading = prompts.with_reply(subject, prompt, ids)
        other = replace(self, reading=reading, experiment=self.experiment.with_reading(reading))
        own, others = (one.score_sum(one.reading.content)[: self.reading.start] for one in (self, other))
        scores: Floats = own - others
        return scores

    def score_targets(self, targets: Sequence[Target], end: int | None = None) -> Floats:
        """The scores of targets in the text up to a position, [target, token]; several share a forward pass."""
        row = self.reading.row if end is None else self.reading.up_to(end)
        scores, shared = np.zeros((len(targets), len(self.reading.row))), "pass" if len(targets) > 1 else ""

        def use(job: "TraceJob", _: str, part: "Trace") -> None:
            scores[list(job.places), : len(row)] = self.method.total(part).detach().double().cpu().numpy()

        texts, subject = [row] * len(targets), self.explainer.subject
        reply_trace.run_targets({"": self.method}, subject, texts, targets, shared, use, Meter(None))
        return scores

    def _score(self, target: Target, end: int) -> Floats:
        """The scores of a target in the text up to a position."""
        scores: Floats = self.score_targets([target], end)[0]
        return scores

    def every_layer(self, target: Target | None, end: int) -> LayerSaliency:
        """The explanation of a target at every layer, in the text up to a position."""
        encoded = Encoded([self.reading.up_to(end)], self.explainer.subject.text_encoder.pad_id)
        return self.explainer.explain_encoded_layers(encoded, target)

    def check(self, saliency: "SpanSaliency", passes: bool | int) -> "SpanSaliency":
        """An explained part with what hiding words of the prompt does to it."""
        checked_part: SpanSaliency = self.explainer.check(saliency, None, passes)
        return checked_part


@dataclass(frozen=True, eq=False, repr=False)
@checked
class SpanSaliency(Saliency):
    """The explanation of a part of a reply as one target; `Answer.of` and `Answer.rather` make it.

    >>> import nbsal
    >>> asked = [{"role": "user", "content": "Where does Mara live? Mara lives in Oslo."}]
    >>> result = nbsal.answer(nbsal.load("demo/notes"), asked, " In Oslo.", method="gradxact", progress=False)
    >>> result.of("Oslo").every_layer().scores.shape == (5, len(result.of("Oslo").tokens))
    True
    """

    unsaved = ("span_target", "running")
    span_target: Target | None = None
    running: ReplyMethod | None = field(default=None, repr=False)  # the model; not saved

    @property
    def part_names(self) -> tuple[str, ...]:
        return "", "reply so far"

    def __repr__(self) -> str:
        best = ", ".join(f"{part.label} {part.score:+.3g}" for part in self.ranked_words(3))
        return visible(f"Saliency({self.caption()}: {best})") if self.row.units else super().__repr__()

    def every_layer(self) -> LayerSaliency:
        """The same target explained at every layer, from one forward and one backward pass."""
        if self.running is None:
            message = "This explanation was loaded, or compares two replies, and has no layers. Use nbsal.answer again."
            raise InputError(message, argument="span")
        layers = self.running.every_layer(self.span_target, len(self.row))
        provenance = {name: value for name, value in self.provenance.items() if name not in OF_ONE_TARGET}
        return replace(
            layers,
            row=self.row,
            target=self.target,
            prediction=self.prediction,
            probabilities=self.probabilities,
            provenance=provenance | {"parameters": layers.provenance["parameters"]},
        )
