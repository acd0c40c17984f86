"""Scores of every token of a reply by some methods: one row for each, over the prompt and the reply before it."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from nbsal.explain.scoring.running import Explains, ReplyMethod
from nbsal.explain.scoring.score_matrix import ScoreMatrix
from nbsal.methods.perturbation import Perturbation
from nbsal.passes import reply_trace
from nbsal.passes.plan import TraceJob
from nbsal.passes.trace import Trace
from nbsal.support.arrays import Floats
from nbsal.support.progress import Meter

Group = Mapping[str, ReplyMethod]  # of one model and number, which can share traces


@dataclass(eq=False)
class Rows:
    """The scores of a reply by one method, [reply token, token of prompt and reply], filled in from the first on."""

    scores: ScoreMatrix
    explained: int = 0  # tokens that have their scores
    numbers: dict[str, list[float]] = field(default_factory=dict)  # of each token by name, among the method's notes

    @classmethod
    def empty(cls, running: ReplyMethod) -> Self:
        """Rows of zeros, as many as the reply has tokens; methods that hide put those of units in their place."""
        count, size = len(running.reading.reply_ids), len(running.reading.row)
        if isinstance(running.method, Perturbation):
            return cls(ScoreMatrix.of_units(np.zeros((count, 0)), [], size))
        return cls(ScoreMatrix(np.zeros((count, size))))

    def fill(self, token: int, scores: Floats, notes: Mapping[str, Any]) -> None:
        """Fill in the scores of a token, over the text that is read for it, after those of all tokens before."""
        self.scores.columns[token, : len(scores)] = scores
        self.explained = token + 1
        for name, value in notes.items():
            if isinstance(value, int | float):
                self.numbers.setdefault(name, [])[token:] = [value]


def default_number(explainer: Explains) -> str:
    """What a method explains of a token by default: hiding, its log-probability or odds; all others, its logit.

    The gradient of a log-probability near 0, that of a token the model is sure of, is lost in rounding.
    """
    return explainer.method.number if isinstance(explainer.method, Perturbation) else "logit"


def score_rows(
    runnings: Mapping[str, ReplyMethod], rows: Mapping[str, Rows], meter: Meter, batch_size: int | None = None
) -> None:
    """By method, fill in the scores of every token of one reply.

    Methods that hide share the subsets of units that were run; all others share traces (see `Method.shares`). `meter`
    counts the tokens of the reply once for each method; `batch_size` is how many of them are run together.
    """
    groups: dict[Hashable, dict[str, ReplyMethod]] = {}
    for name, running in runnings.items():
        groups.setdefault(_shared(running), {})[name] = running
    for group in groups.values():
        score = _score_by_hiding if isinstance(next(iter(group.values())).method, Perturbation) else _score_by_traces
        score(group, rows, meter, batch_size)


def _shared(running: ReplyMethod) -> Hashable:
    """What methods have in common that are run together."""
    method = running.method
    if isinstance(method, Perturbation):
        return id(running.experiment)
    return id(running.explainer.method_subject), running.number, method.shares, "forward" in method.needs


def _score_by_hiding(group: Group, rows: Mapping[str, Rows], meter: Meter, batch_size: int | None) -> None:
    """Perturbation: the units are hidden together, and every subset scores all tokens of the reply at once."""
    for name, running in group.items():
        method = running.method
        assert isinstance(method, Perturbation), "only these hide"
        table = running.coalitions(method)
        part = meter.part(len(running.reading.reply_ids), len(table))
        values = running.experiment.numbers(table, running.number, part)
        rows[name].scores = running.by_unit(method.unit_scores(table, values))
        rows[name].explained = len(running.reading.reply_ids)


def _score_by_traces(group: Group, rows: Mapping[str, Rows], meter: Meter, batch_size: int | None) -> None:
    """All others: each token is a target, in a trace of its own or in one that tokens share."""
    first = next(iter(group.values()))
    methods, shares = {name: running.method for name, running in group.items()}, first.method.shares
    for tokens, texts in first.predictions.texts(shares, batch_size):

        def use(job: TraceJob, name: str, part: Trace, tokens: Sequence[int] = tokens) -> None:
            scores = methods[name].total(part).detach().double().cpu().numpy()
            for at, row, own, notes in zip(job.places, part.encoded, scores, methods[name].notes(part), strict=True):
                rows[name].fill(tokens[at], own[: len(row)], notes)

        targets = [first.predictions.target(token) for token in tokens]
        steps = meter.part(len(tokens) * len(group), len(tokens))
        subject = first.explainer.subject
        reply_trace.run_targets(methods, subject, texts, targets, shares, use, steps, batch_size)
