"""The hiding and the revealing game on one text, step by step, with a baseline of random orders."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nbsal import trace
from nbsal.errors import InputError
from nbsal.evaluation._games import GAMES, coalition_steps
from nbsal.model.masking import MaskedModel
from nbsal.model.subject import Subject
from nbsal.model.targets import Target, decide, is_regression
from nbsal.model.tokens import Encoded, Row
from nbsal.progress import Meter
from nbsal.saliency import Floats, Saliency

if TYPE_CHECKING:
    import pandas

MAX_STEPS = 40  # of a curve; in a longer text a step is several tokens
RANDOM_ORDERS = 10
RANDOM_STEPS = 10  # of the curve of each random order
RANDOM_NAME = "mean of random orders"


@dataclass(frozen=True, eq=False)
class GameCurve:
    """The curve of one order of tokens: values at fractions of the text's tokens; several orders have a range."""

    name: str
    fractions: Sequence[float]
    values: Floats
    low: Floats | None = None
    high: Floats | None = None

    @property
    def area(self) -> float:
        """The area under the curve, by the trapezoidal rule."""
        return float(np.trapezoid(self.values, self.fractions))


@dataclass(frozen=True, eq=False)
class TokenGames:
    """Both games on one text, by the order of a saliency and, once they are computed, by random orders.

    `outcomes` holds the model's outputs [step, label] of each game after `steps` tokens; the curves show those of
    label number `label`.
    """

    saliency: Saliency
    labels: Sequence[str]
    label: int
    steps: Sequence[int]
    outcomes: dict[str, Floats]
    random: dict[str, GameCurve] | None = None

    def curves(self, game: str) -> list[GameCurve]:
        """The curve of the method and, once it is computed, that of the random orders."""
        size = max(len(self.saliency.order), 1)
        fractions = [step / size for step in self.steps]
        curve = GameCurve(self.saliency.method, fractions, self.outcomes[game][:, self.label])
        return [curve, self.random[game]] if self.random else [curve]

    def remaining(self, game: str, count: int) -> list[int]:
        """The tokens that the model still reads after `count` tokens were hidden, or that are revealed so far."""
        order = self.saliency.order
        return sorted(order[count:] if game == "hiding" else order[:count])

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each game, order and step."""
        import pandas

        rows: list[Any] = []
        for game in GAMES:
            for curve in self.curves(game):
                empty = np.full(len(curve.values), np.nan)
                low, high = (empty, empty) if curve.low is None or curve.high is None else (curve.low, curve.high)
                points = zip(curve.fractions, curve.values, low, high, strict=True)
                rows += [(game, curve.name, *point) for point in points]
        return pandas.DataFrame(rows, columns=["game", "order", "fraction", self.labels[self.label], "low", "high"])


def play_games(saliency: Saliency, masked_model: MaskedModel, target: Any, meter: Meter) -> Iterator[TokenGames]:
    """Play both games in the order of a saliency, then also in random orders: yields a result after each of the two.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> saliency = nbsal.Explainer(subject, "gradcam")("A warm film.")
    >>> first, both = play_games(saliency, MaskedModel(subject), None, Meter(None))
    >>> first.steps, first.random is None, both.random["hiding"].name
    ([0, 1, 2, 3, 4], True, 'mean of random orders')
    """
    subject, row, size = masked_model.subject, saliency.row, len(saliency.order)
    if len(row) > subject.max_length:
        message = f"The games need a text of at most {subject.max_length} tokens. Shorten the text."
        raise InputError(message, argument="text", value=row.text)
    steps = _spread(size, MAX_STEPS)
    labels, outcomes = _play(masked_model, row, target, [saliency.order], steps, meter)
    label = labels.index(saliency.target) if saliency.target in labels else int(outcomes["hiding"][0, 0].argmax())
    games = TokenGames(saliency, labels, label, steps, {game: values[0] for game, values in outcomes.items()})
    yield games
    orders = [np.random.default_rng(seed).permutation(row.content).tolist() for seed in range(RANDOM_ORDERS)]
    steps = _spread(size, RANDOM_STEPS)
    _, outcomes = _play(masked_model, row, target, orders, steps, meter)
    yield replace(games, random={game: _random_curve(outcomes[game][..., label], steps, size) for game in GAMES})


def coalition_count(size: int) -> int:
    """How many coalitions `play_games` evaluates for a text of so many tokens."""
    return 2 * (len(_spread(size, MAX_STEPS)) + RANDOM_ORDERS * len(_spread(size, RANDOM_STEPS)))


def _play(
    masked_model: MaskedModel,
    row: Row,
    target: Any,
    orders: Sequence[Sequence[int]],
    steps: Sequence[int],
    meter: Meter,
) -> tuple[list[str], dict[str, Floats]]:
    """Play both games in several orders; return the labels, and for each game the outputs [order, step, label]."""
    subject = masked_model.subject
    fractions = [step / max(steps[-1], 1) for step in steps]
    coalitions = np.concatenate([coalition_steps(row, order, fractions) for order in orders])
    if subject.task == "sequence" and not is_regression(subject):
        labels = subject.labels
        (logits,) = masked_model.logits([row], [coalitions], meter)
        decisions = [decide(subject, row, coalition_logits, None) for coalition_logits in logits]
        values = np.stack([decision.probabilities.double().numpy() for decision in decisions])
    else:
        resolved = _resolve_target(subject, row, target)
        labels = [resolved.label]
        values = masked_model.values([row], [coalitions], [resolved], meter)[0].double().numpy()[:, None]
    by_order = values.reshape(len(orders), len(GAMES), len(steps), len(labels))
    return labels, {game: by_order[:, number] for number, game in enumerate(GAMES)}


def _resolve_target(subject: Subject, row: Row, target: Any) -> Target:
    """The explained output of a text as a sum of logits."""
    return trace.record(subject, Encoded([row], 0), [target], needs=()).decisions[0].target


def _random_curve(values: Floats, steps: Sequence[int], size: int) -> GameCurve:
    fractions = [step / max(size, 1) for step in steps]
    return GameCurve(RANDOM_NAME, fractions, values.mean(0), values.min(0), values.max(0))


def _spread(size: int, most: int) -> list[int]:
    """Numbers of tokens from none to all in at most `most` even steps."""
    count = min(size, most)
    return sorted({round(size * step / count) for step in range(count + 1)}) if size else [0]
