"""Scores of every token of a reply by a method: one row for each, over the prompt and the reply before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nbsal import reply_trace, trace
from nbsal.answers.hiding import Hiding
from nbsal.answers.reading import Reading, Unit
from nbsal.methods.base import Method
from nbsal.methods.perturbation import Perturbation, Random, scores_by_position
from nbsal.methods.relevance import RelevanceMethod
from nbsal.model.subject import Subject
from nbsal.model.target import Decision, Target
from nbsal.model.tokens import Encoded, Row
from nbsal.progress import Meter
from nbsal.saliency import Saliency
from nbsal.trace import Trace

BATCH = 16  # texts that are explained together where each token needs a text of its own
Floats = NDArray[np.float64]


class Explains(Protocol):
    """What is needed of an explainer."""

    subject: Subject
    method: Method

    @property
    def method_subject(self) -> Subject:
        """The subject that the method runs."""

    @property
    def provenance(self) -> dict[str, Any]:
        """Model, method, settings, precision, versions."""

    def encoded(self, encoded: Encoded, targets: Sequence[Any]) -> list[Saliency]:
        """Explain a batch of encoded texts."""


@dataclass(frozen=True)
class Predictions:
    """The tokens of a reply as predictions: each is read from the position before it."""

    reading: Reading
    number: str

    def target(self, token: int, end: int | None = None) -> Target:
        """The number of a reply's token, in the row as it is or cut to its first `end` tokens."""
        position = self.reading.position(token)
        return Target(
            self.reading.reply_tokens[token], (((position, self.reading.reply_ids[token]), 1.0),), self.number
        )

    def targets(self) -> list[Target]:
        """One for each token of the reply."""
        return [self.target(token) for token in range(len(self.reading.reply_ids))]


def default_number(explainer: Explains) -> str:
    """What a method explains of a token by default: hiding, its log-probability; all others, its logit.

    The gradient of a log-probability near 0, that of a token the model is sure of, is lost in rounding.
    """
    return "logprob" if isinstance(explainer.method, Perturbation) else "logit"


def score_rows(
    explainer: Explains, reading: Reading, number: str, units: Sequence[Unit], hiding: Hiding, meter: Meter
) -> Floats:
    """The scores of every token of the reply, [reply token, token of prompt and reply]."""
    method, predictions = explainer.method, Predictions(reading, number)
    scores = np.zeros((len(reading.reply_ids), len(reading.row)))
    if isinstance(method, Perturbation) and not isinstance(method, Random):
        _score_by_hiding(method, reading, units, hiding, scores, meter)
    elif method.shares_pass and "forward" not in method.needs:
        _score_in_one_pass(explainer, predictions, scores, meter)
    elif isinstance(method, RelevanceMethod) and method.needs <= {"relevance"}:
        _score_from_one_graph(explainer, predictions, scores, meter)
    else:
        _score_one_by_one(explainer, predictions, scores, meter)
    for token, row in enumerate(scores):
        row[reading.start + token :] = 0  # what comes later has no effect
    return scores


def _score_in_one_pass(explainer: Explains, predictions: Predictions, scores: Floats, meter: Meter) -> None:
    method, subject = explainer.method, explainer.method_subject

    def use(numbers: Sequence[int], part: Trace) -> None:
        meter.check()
        scores[list(numbers)] = method.scores(part).detach().double().cpu().numpy()
        meter.step(len(numbers))

    layers = method.layers(subject.depth)
    reply_trace.each_prediction(subject, predictions.reading.row, predictions.targets(), method.needs, layers, use)


def _score_from_one_graph(explainer: Explains, predictions: Predictions, scores: Floats, meter: Meter) -> None:
    """Relevance: one forward pass under the method's rules, from which each prediction is propagated back."""
    method, subject = explainer.method, explainer.method_subject
    encoded = _encoded(subject, [predictions.reading.row])
    record = trace.record(subject, encoded, [predictions.target(0)], method.needs, keep=())
    record.graphs = {}
    for token, target in enumerate(predictions.targets()):
        meter.check()
        decision = Decision(target.label, record.logits.new_empty(0), target)
        part = Trace(subject, encoded, [decision], record.logits, record.values, relevance_graph=record.relevance_graph)
        part.graphs = record.graphs
        scores[token] = method.scores(part)[0].detach().double().cpu().numpy()
        meter.step()


def _score_one_by_one(explainer: Explains, predictions: Predictions, scores: Floats, meter: Meter) -> None:
    """Any other method: each token is explained in the text that ends before it."""
    reading = predictions.reading
    tokens = range(len(reading.reply_ids))
    for first in range(0, len(tokens), BATCH):
        meter.check()
        part = tokens[first : first + BATCH]
        encoded = _encoded(explainer.subject, [reading.up_to(reading.start + token) for token in part])
        targets = [predictions.target(token) for token in part]
        for token, saliency in zip(part, explainer.encoded(encoded, targets), strict=True):
            scores[token, : len(saliency.scores)] = saliency.scores
        meter.step(len(part))


def _score_by_hiding(
    method: Perturbation, reading: Reading, units: Sequence[Unit], hiding: Hiding, scores: Floats, meter: Meter
) -> None:
    """Perturbation: the units are hidden together, and every subset scores all tokens of the reply at once."""
    parts = [unit.tokens for unit in units]
    table = method.coalitions(reading.row, parts)
    values = hiding.values(table, meter.part(len(reading.reply_ids), len(table)))
    for token in range(len(reading.reply_ids)):
        unit_scores = method.unit_scores(table, values[:, token])
        scores[token] = scores_by_position(unit_scores, parts, len(reading.row))


def _encoded(subject: Subject, rows: Sequence[Row]) -> Encoded:
    return Encoded(rows, subject.text_encoder.pad_id)
