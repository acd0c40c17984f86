"""Scores of every token of a reply by some methods: one row for each, over the prompt and the reply before it."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nbsal.explain.scoring.path_rows import score_along_paths
from nbsal.explain.scoring.running import Explains, ReplyMethod
from nbsal.explain.scoring.score_matrix import ScoreMatrix
from nbsal.methods.paths import AlongPaths
from nbsal.methods.perturbation import Perturbation
from nbsal.methods.propagation import RelevanceMethod
from nbsal.model.subject import Subject
from nbsal.model.target import Decision
from nbsal.model.text.tokens import Encoded, Row
from nbsal.passes import reply_trace, trace
from nbsal.passes.trace import Trace
from nbsal.support.progress import Meter

BATCH = 16  # texts that are explained together where each token needs a text of its own
Group = Mapping[str, ReplyMethod]  # of one model and number, which can share a pass


@dataclass(eq=False)
class Rows:
    """The scores of a reply by one method, [reply token, token of prompt and reply], filled in from the first on."""

    scores: ScoreMatrix
    explained: int = 0  # tokens that have their scores
    changes: list[float] = field(default_factory=list)  # of a path method: what the scores of each token should sum to
    points: list[int] = field(default_factory=list)  # of each token's path, where a tolerance sets them
    notes: dict[str, list[float]] = field(default_factory=dict)  # further numbers of each token, by name

    @classmethod
    def empty(cls, running: ReplyMethod) -> Self:
        """Rows of zeros, as many as the reply has tokens; methods that hide put those of units in their place."""
        count, size = len(running.reading.reply_ids), len(running.reading.row)
        if isinstance(running.method, Perturbation):
            return cls(ScoreMatrix.of_units(np.zeros((count, 0)), [], size))
        return cls(ScoreMatrix(np.zeros((count, size))))

    def add(self, scores: NDArray[np.floating[Any]], changes: Sequence[float] = (), points: Sequence[int] = ()) -> None:
        """Fill in the scores of the next tokens, over the text that ends before the last of them."""
        count, size = scores.shape
        self.scores.columns[self.explained : self.explained + count, :size] = scores
        self.explained += count
        self.changes += changes
        self.points += points

    def add_notes(self, notes: Mapping[str, Any]) -> None:
        """Add the numbers among the notes on the next token."""
        for name, value in notes.items():
            if isinstance(value, float):
                self.notes.setdefault(name, []).append(value)

    @property
    def completeness(self) -> Mapping[str, Sequence[float]]:
        """What each token's scores sum to, beside what they should, and further numbers on each."""
        if not self.changes:
            return self.notes
        sums = self.scores.columns[: len(self.changes)].sum(1)
        gaps = {"change": self.changes, "gap": (sums - self.changes).tolist()}
        return gaps | ({"points": self.points} if self.points else {})


Score = Callable[[Group, Mapping[str, Rows], Meter, int | None], None]


def default_number(explainer: Explains) -> str:
    """What a method explains of a token by default: hiding, its log-probability or odds; all others, its logit.

    The gradient of a log-probability near 0, that of a token the model is sure of, is lost in rounding.
    """
    return explainer.method.number if isinstance(explainer.method, Perturbation) else "logit"


def score_rows(
    runnings: Mapping[str, ReplyMethod], rows: Mapping[str, Rows], meter: Meter, batch_size: int | None = None
) -> None:
    """By method, fill in the scores of every token of one reply.

    Methods that read the same trace share one; those that hide share the subsets of units that were run. `meter` counts
    the tokens of the reply once for each method; `batch_size` is how many of them are run together.
    """
    groups: dict[tuple[Score, Hashable], dict[str, ReplyMethod]] = {}
    for name, running in runnings.items():
        groups.setdefault(_scorer(name, running), {})[name] = running
    for (score, _), group in groups.items():
        score(group, rows, meter, batch_size)


def _scorer(name: str, running: ReplyMethod) -> tuple[Score, Hashable]:
    """How a method is run, and what it shares that with."""
    method, shared = running.method, (id(running.explainer.method_subject), running.number)
    if isinstance(method, Perturbation):
        return _score_by_hiding, id(running.experiment)
    if method.shares_pass and "forward" not in method.needs:
        return _score_in_one_pass, shared
    if isinstance(method, AlongPaths):
        return _score_along_paths, name
    if isinstance(method, RelevanceMethod) and method.needs <= {"relevance"}:
        return _score_from_one_graph, shared
    return _score_one_by_one, name


def _score_in_one_pass(group: Group, rows: Mapping[str, Rows], meter: Meter, batch_size: int | None) -> None:
    first = next(iter(group.values()))
    subject, methods = first.explainer.method_subject, {name: running.method for name, running in group.items()}
    needs = frozenset[str]().union(*(method.needs for method in methods.values()))
    layers = set[int]().union(*(method.layers(subject.depth) for method in methods.values()))
    by_block = all(method.by_block for method in methods.values())
    for tokens, row in first.predictions.shared():

        def use(numbers: Sequence[int], part: Trace) -> None:
            scores = {}  # of all methods before any is added, since a part too large for memory runs again
            for name, method in methods.items():
                meter.check()
                scores[name] = method.total(part).detach().double().cpu().numpy(), method.notes(part)
            for name, (added, notes) in scores.items():
                rows[name].add(added)
                for note in notes:
                    rows[name].add_notes(note)
            meter.step(len(numbers) * len(methods))

        targets = [first.predictions.target(token) for token in tokens]
        reply_trace.each_prediction(subject, row, targets, needs, layers, use, batch_size, by_block=by_block)


def _score_from_one_graph(group: Group, rows: Mapping[str, Rows], meter: Meter, batch_size: int | None) -> None:
    """Relevance: a forward pass under each set of rules, from which several predictions are propagated back."""
    first = next(iter(group.values()))
    subject, predictions = first.explainer.method_subject, first.predictions
    needs = frozenset[str]().union(*(running.method.needs for running in group.values()))
    for tokens, row in predictions.shared():
        encoded = _encoded(subject, [row])
        record = trace.record(subject, encoded, [predictions.target(tokens[0])], needs)
        record.graphs = {}
        for token in tokens:
            target = predictions.target(token)
            decision = Decision(target.label, record.logits.new_empty(0), target)
            graph = record.relevance_graph
            part = Trace(subject, encoded, [decision], record.logits, record.values, relevance_graph=graph)
            part.graphs = record.graphs
            for name, running in group.items():
                meter.check()
                rows[name].add(running.method.checked_scores(part).detach().double().cpu().numpy())
                rows[name].add_notes(running.method.notes(part)[0])
                meter.step()


def _score_along_paths(group: Group, rows: Mapping[str, Rows], meter: Meter, batch_size: int | None) -> None:
    """Gradients at other states than the text's own: all tokens share them, and a forward pass for each."""
    ((name, running),) = group.items()
    for tokens, row in running.predictions.shared():
        part = meter.part(len(tokens), len(tokens))
        score_along_paths(running, tokens, row, rows[name].add, part, batch_size)


def _score_one_by_one(group: Group, rows: Mapping[str, Rows], meter: Meter, batch_size: int | None) -> None:
    """Any other method: each token is explained in the text that ends before it."""
    ((name, running),) = group.items()
    reading, size = running.reading, batch_size or BATCH
    tokens = range(len(reading.reply_ids))
    for first in range(0, len(tokens), size):
        meter.check()
        part = tokens[first : first + size]
        texts = [reading.up_to(reading.start + token) for token in part]
        targets = [running.predictions.target(token) for token in part]
        for saliency in running.explainer.encoded(_encoded(running.explainer.subject, texts), targets):
            change = saliency.provenance.get("change")
            rows[name].add(saliency.scores[None], [] if change is None else [change])
        meter.step(len(part))


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


def _encoded(subject: Subject, rows: Sequence[Row]) -> Encoded:
    return Encoded(rows, subject.text_encoder.pad_id)
