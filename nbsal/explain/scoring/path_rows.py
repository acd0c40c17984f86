"""Scores of a reply's tokens by path methods: all tokens share the states that are run in place of the text's own.

Later positions of a causal model change nothing. A path from a baseline to the whole text is therefore, up to each
token, the path to the text that ends there.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nbsal.explain.scoring.running import ReplyMethod
from nbsal.methods.paths import AlongPaths, Path
from nbsal.methods.upper_layers import Point, UpperLayers
from nbsal.model.running.layers import forward_mode, run_model
from nbsal.model.target import Target
from nbsal.model.text.tokens import Encoded, Row
from nbsal.passes import reply_trace, trace
from nbsal.passes.trace import Trace
from nbsal.support.arrays import Floats
from nbsal.support.progress import Meter

CELLS = 2**27  # entries of the features of all tokens, of methods that sum them before they make scores of them
Add = Callable[[Floats, Sequence[float], Sequence[int]], None]


def score_along_paths(
    running: ReplyMethod, tokens: Sequence[int], row: Row, add: Add, meter: Meter, batch_size: int | None
) -> None:
    """Call `add` with the scores of some tokens of a reply over a row, the changes that they explain, and the points.

    `meter` counts the tokens.
    """
    method = running.method
    assert isinstance(method, AlongPaths), "only these have paths"
    subject = running.explainer.method_subject

    def run() -> None:
        encoded = Encoded([row], subject.text_encoder.pad_id)
        first = running.predictions.target(tokens[0])
        record = trace.record(subject, encoded, [first], method.needs, {method.chosen})
        upper = UpperLayers(record, method.chosen)
        size = len(tokens) if method.linear else max(1, CELLS // upper.states.numel())
        for start in range(0, len(tokens), size):
            targets = [running.predictions.target(token) for token in tokens[start : start + size]]
            add(*_refined(upper, targets, method, meter, batch_size))

    subject.exclusively(run)


def _refined(
    upper: UpperLayers, targets: Sequence[Target], method: AlongPaths, meter: Meter, batch_size: int | None
) -> tuple[Floats, list[float], list[int]]:
    """The scores of all targets, what they should sum to, and the points of each if the gap decides on them."""
    along = _AlongPaths(upper, targets, batch_size)
    if not method.adapts:
        return along.scores(method, meter), along.changes, []
    share = 0.5  # of the progress, the rest of which is for later attempts
    scores = along.scores(method, meter.part(share * len(targets), len(targets)))
    points = [along.count] * len(targets)
    method, numbers = method.refine(scores.sum(1).tolist(), along.changes)
    while numbers:
        share /= 2
        again = _AlongPaths(upper, [targets[number] for number in numbers], batch_size)
        scores[numbers] = again.scores(method, meter.part(share * len(targets), len(numbers)))
        for number in numbers:
            points[number] = again.count
        method, numbers = method.refine(scores.sum(1).tolist(), along.changes)
    meter.step(share * len(targets))
    return scores, along.changes, points


class _AlongPaths:
    """The paths of one row, and the targets that are explained along them."""

    def __init__(self, upper: UpperLayers, targets: Sequence[Target], batch_size: int | None) -> None:
        self.upper = upper
        self.targets = targets
        self.batch_size = batch_size
        self.changes: list[float] = []  # of each target; empty where paths have no baseline
        self.count = 0  # points of all paths

    def scores(self, method: AlongPaths, meter: Meter) -> Floats:
        """The scores of all targets, [target, position]."""
        states, changes = self.upper.states, torch.zeros(0)
        shape = states.shape[1:] if not method.linear else states.shape[1:2]
        total = states.new_zeros(len(self.targets), *shape)
        for path in method.paths(self.upper):
            self.count += path.count
            steps = meter.part(len(self.targets) * path.share, path.count * len(self.targets))
            for point in path.points:
                self._add_gradients(method, path, point, total, steps)
            if path.baseline is not None:
                change = path.share * (
                    self._values(self.upper.trace.logits) - self._values(self._logits(path.baseline))
                )
                changes = change + changes if len(changes) else change
        self.changes = changes.tolist()
        scores = total if method.linear else method.aggregate(method.from_sum(total))
        result: Floats = scores.detach().double().cpu().numpy()
        return result

    def _add_gradients(self, method: AlongPaths, path: Path, point: Point, total: Tensor, meter: Meter) -> None:
        """Add the gradients of all targets at a point, from one forward pass."""
        subject, (row,) = self.upper.trace.subject, self.upper.trace.encoded
        layer = self.upper.layer

        def use(numbers: Sequence[int], part: Trace) -> None:
            meter.check()
            features = point.weight * part.hidden_grad[layer] * path.factor
            total[numbers[0] : numbers[-1] + 1] += method.aggregate(features) if method.linear else features
            meter.step(len(numbers))

        replaced = (layer, point.states)
        reply_trace.each_prediction(
            subject, row, self.targets, {"hidden_grad"}, {layer}, use, self.batch_size, replaced
        )

    def _values(self, logits: Tensor) -> Tensor:
        """The numbers of all targets."""
        return torch.stack([target.value(logits[0]) for target in self.targets]).double().cpu()

    def _logits(self, states: Tensor) -> Tensor:
        """The logits with other states in the layer."""
        subject = self.upper.trace.subject
        with forward_mode(gradients=False):
            return run_model(subject, self.upper.inputs, (self.upper.layer, states))[0]
