"""The hiding and the revealing game on one text, step by step, with a baseline of random orders.

A step hides or reveals whole words, the most important first: a word counts as much as its tokens together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nbsal.evaluation.results import GAMES
from nbsal.explain.explanation import Floats
from nbsal.explain.finding import TOO_LONG
from nbsal.explain.saliency import Saliency
from nbsal.methods.lazy import MaskedModel, targets, trace
from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.arrays import Flags
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter

MAX_STEPS = 40  # of a curve; in a longer text a step is several words
RANDOM_STEPS = 5  # of the curve of each random order
RANDOM_ORDERS = 10  # five, and the same backwards: hiding the first words of one is revealing the last of the other
RANDOM_NAME = "random order"

Units = Sequence[Sequence[int]]  # the tokens of each word


@dataclass(frozen=True, eq=False)
class GameCurve:
    """The curve of one order of words: values at fractions of the text's words; several orders have a range."""

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
class RandomGames:
    """Both games in random orders: the model's outputs [order, step, label] of each game after `steps` words."""

    steps: Sequence[int]
    outcomes: dict[str, Floats]

    def curve(self, game: str, label: int) -> GameCurve:
        """The mean of the orders, and their range."""
        values = self.outcomes[game][..., label]
        fractions = [step / max(self.steps[-1], 1) for step in self.steps]
        return GameCurve(RANDOM_NAME, fractions, values.mean(0), values.min(0), values.max(0))


@dataclass(frozen=True, eq=False)
class TokenGames:
    """Both games on one text, by the order of a saliency and, once they are computed, by random orders.

    `order` holds the tokens of each word, the most important word first. `outcomes` holds the model's outputs
    [step, label] of each game after `steps` words; the curves show those of label number `label`.
    """

    saliency: Saliency
    order: Units
    labels: Sequence[str]
    label: int
    steps: Sequence[int]
    outcomes: dict[str, Floats]
    random: RandomGames | None = None

    @property
    def probable(self) -> bool:
        """Whether the outputs are probabilities."""
        return len(self.labels) > 1

    def curves(self, game: str) -> list[GameCurve]:
        """The curve of the method and, once it is computed, that of the random orders."""
        fractions = [step / max(len(self.order), 1) for step in self.steps]
        curve = GameCurve(self.saliency.method, fractions, self.outcomes[game][:, self.label])
        return [curve, self.random.curve(game, self.label)] if self.random else [curve]

    def step(self, count: int) -> int:
        """The number of the step nearest to `count` words."""
        return int(np.abs(np.array(self.steps) - count).argmin())

    def hidden(self, game: str, count: int) -> list[int]:
        """The tokens that the model does not read after `count` words were hidden, or revealed."""
        words = self.order[:count] if game == "hiding" else self.order[count:]
        return sorted(i for word in words for i in word)

    def remaining(self, game: str, count: int) -> list[int]:
        """The tokens that the model still reads after `count` words were hidden, or that are revealed so far."""
        hidden = set(self.hidden(game, count))
        return [i for i in self.saliency.row.content if i not in hidden]

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each game, order and step."""
        rows: list[Any] = []
        for game in GAMES:
            for curve in self.curves(game):
                empty = np.full(len(curve.values), np.nan)
                low, high = (empty, empty) if curve.low is None or curve.high is None else (curve.low, curve.high)
                points = zip(curve.fractions, curve.values, low, high, strict=True)
                rows += [(game, curve.name, *point) for point in points]
        return pandas.DataFrame(rows, columns=["game", "order", "fraction", self.labels[self.label], "low", "high"])


def play_games(
    saliency: Saliency, masked_model: MaskedModel, target: Any, meter: Meter, most_steps: int = MAX_STEPS
) -> Iterator[TokenGames]:
    """Play both games in the order of a saliency, then also in random orders: yields a result after each of the two."""
    subject, row = masked_model.subject, saliency.row
    if len(row) > subject.max_length:
        raise InputError(TOO_LONG, argument="text", value=row.text)
    order = word_order(saliency)
    size = len(order)
    steps = _spread(size, most_steps)
    labels, outcomes = _play(masked_model, row, target, [order], steps, meter)
    label = labels.index(saliency.target) if saliency.target in labels else int(outcomes["hiding"][0, 0].argmax())
    games = TokenGames(saliency, order, labels, label, steps, {game: values[0] for game, values in outcomes.items()})
    yield games
    steps = _spread(size, RANDOM_STEPS)
    orders = _random_orders(units(row))
    _, outcomes = _play(masked_model, row, target, orders, steps, meter)
    yield replace(games, random=RandomGames(steps, outcomes))


def units(row: Row) -> list[list[int]]:
    """The tokens of each word of a text; tokens outside of words count as words of their own."""
    words = [list(word.tokens) for word in row.words]
    covered = {i for word in words for i in word}
    return sorted([*words, *([i] for i in row.content if i not in covered)])


def word_order(saliency: Saliency) -> list[list[int]]:
    """The tokens of each word, the most important word first: by score, then by tie-breaker, then by position."""

    def key(word: list[int]) -> tuple[float, float, int]:
        return -float(saliency.scores[word].sum()), -float(saliency.tie_breaker[word].sum()), word[0]

    return sorted(units(saliency.row), key=key)


def coalition_count(size: int, most_steps: int = MAX_STEPS) -> int:
    """How many coalitions `play_games` looks at for a text of so many words."""
    return 2 * (len(_spread(size, most_steps)) + RANDOM_ORDERS * len(_spread(size, RANDOM_STEPS)))


def _random_orders(words: Units) -> list[Units]:
    """Random orders and their reverses, whose coalitions are the same with the games exchanged: half the passes."""
    shuffles = (np.random.default_rng(seed).permutation(len(words)) for seed in range(RANDOM_ORDERS // 2))
    return [[words[i] for i in order] for shuffle in shuffles for order in (shuffle, shuffle[::-1])]


def _play(
    masked_model: MaskedModel,
    row: Row,
    target: Any,
    orders: Sequence[Units],
    steps: Sequence[int],
    meter: Meter,
) -> tuple[list[str], dict[str, Floats]]:
    """Play both games in several orders; return the labels, and for each game the outputs [order, step, label]."""
    subject = masked_model.subject
    coalitions = np.concatenate([_coalitions(row, order, steps) for order in orders])
    if subject.task == "sequence" and not targets.is_regression(subject):
        labels = subject.labels
        (logits,) = masked_model.logits([row], [coalitions], meter)
        decisions = [targets.decide(subject, row, coalition_logits, None) for coalition_logits in logits]
        values = np.stack([decision.probabilities.double().numpy() for decision in decisions])
    else:
        resolved = trace.record(subject, Encoded([row], 0), [target], needs=()).decisions[0].target
        labels = [resolved.label]
        values = masked_model.values([row], [coalitions], [resolved], meter)[0].double().numpy()[:, None]
    by_order = values.reshape(len(orders), len(GAMES), len(steps), len(labels))
    return labels, {game: by_order[:, number] for number, game in enumerate(GAMES)}


def _coalitions(row: Row, order: Units, steps: Sequence[int]) -> Flags:
    """The tokens that stay at each step of the Revealing game, then of the Hiding game: [coalition, token]."""
    place = np.full(len(row), -1)
    for number, word in enumerate(order):
        place[list(word)] = number
    counts = np.array(steps)[:, None]
    return np.concatenate([place < counts, (place >= counts) | (place < 0)])


def _spread(size: int, most: int) -> list[int]:
    """Numbers of words from none to all in at most `most` even steps."""
    count = min(size, most)
    return sorted({round(size * step / count) for step in range(count + 1)}) if size else [0]
