"""The hiding and the revealing game on one text, step by step, with a baseline of random orders.

A step hides or reveals whole words, the most important first: a word counts as much as its tokens together. Where a
game turns, steps are single words, however many words the others hide.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nbsal.evaluation.results import GAMES
from nbsal.explain.explained import Floats
from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.decision_facts import TOO_LONG
from nbsal.methods.lazy import Ablation, DecisionText, Experiment, targets, trace
from nbsal.model.target import Target
from nbsal.model.text.tokens import Encoded, Row
from nbsal.render.headline import name_in_sentence
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.progress import Meter

MAX_STEPS = 40  # of a curve; in a longer text a step is several words
RANDOM_STEPS = 4  # of the curve of each random order
RANDOM_ORDERS = 10  # five, and the same backwards: hiding the first words of one is revealing the last of the other
LONG, FEWER_ORDERS = 100, 2  # words from which on so many orders do: the more words, the less orders differ
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
    """The games on one text, by the order of a saliency and, once they are computed, by random orders.

    `order` holds the tokens of each word, the most important word first. `outcomes` holds the model's outputs
    [step, label] of each game that was played, after `steps` words; the curves show those of label number `label`.
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

    @cached_property
    def names(self) -> list[str]:
        """The words in the order of their scores, as a sentence names them."""
        row = self.saliency.row
        ends = ((word[0], word[-1]) for word in self.order)
        texts = (row.parts[row.segments[i]][row.offsets[i][0] : row.offsets[j][1]] for i, j in ends)
        return [name_in_sentence(text) for text in texts]

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
        for game in self.outcomes:
            for curve in self.curves(game):
                empty = np.full(len(curve.values), np.nan)
                low, high = (empty, empty) if curve.low is None or curve.high is None else (curve.low, curve.high)
                points = zip(curve.fractions, curve.values, low, high, strict=True)
                rows += [(game, curve.name, *point) for point in points]
        return pandas.DataFrame(rows, columns=["game", "order", "fraction", self.labels[self.label], "low", "high"])


def play_games(
    saliency: Saliency,
    ablation: Ablation,
    target: Any,
    meter: Meter,
    most_steps: int = MAX_STEPS,
    games: Collection[str] = GAMES,
) -> Iterator[TokenGames]:
    """Play games in the order of a saliency, then also in random orders: yields a result after each of the two."""
    row = saliency.row
    if len(row) > ablation.subject.max_length:
        raise InputError(TOO_LONG, argument="text", value=row.text)
    order, player = word_order(saliency), _Player(ablation, row, target, games)
    numbers = [player.units.index(word) for word in order]
    steps = evenly_spaced(len(order), most_steps)
    outcomes = {game: values[0] for game, values in player.play([numbers], steps, meter).items()}
    while between := _around_turns(steps, outcomes):
        more = player.play([numbers], between, meter.part(0, 1))
        places = np.argsort(steps + between)
        steps = sorted(steps + between)
        outcomes = {game: np.concatenate([values, more[game][0]])[places] for game, values in outcomes.items()}
    labels, first = player.labels, next(iter(outcomes))
    whole = outcomes[first][0 if first == "hiding" else -1]
    label = labels.index(saliency.target) if saliency.target in labels else int(whole.argmax())
    result = TokenGames(saliency, order, labels, label, steps, outcomes)
    yield result
    steps = evenly_spaced(len(order), RANDOM_STEPS)
    yield replace(result, random=RandomGames(steps, player.play(_random_orders(len(order)), steps, meter)))


def turning_step(game: str, outcomes: Floats) -> int | None:
    """The step at which a game turns, of its outputs [step, label]; None if it never does.

    In hiding, the decision first differs from that of the whole text; in revealing, it has become that of the whole
    text for good. An output that is no probability turns where half of its change is reached.
    """
    hiding = game == "hiding"
    if outcomes.shape[1] == 1:
        values = outcomes[:, 0] if hiding else -outcomes[:, 0]
        return _first(values <= (values[0] + values[-1]) / 2) if values[0] > values[-1] else None
    decisions = outcomes.argmax(1)
    if hiding:
        return _first(decisions != decisions[0])
    return len(decisions) - (_first(decisions[::-1] != decisions[-1]) or len(decisions))


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


def coalition_count(size: int, most_steps: int = MAX_STEPS, games: int = len(GAMES)) -> int:
    """How many coalitions `play_games` looks at for a text of so many words."""
    return games * (len(evenly_spaced(size, most_steps)) + _order_count(size) * len(evenly_spaced(size, RANDOM_STEPS)))


def evenly_spaced(size: int, most: int) -> list[int]:
    """Numbers of words from none to all in at most `most` even steps."""
    count = min(size, most)
    return sorted({round(size * step / count) for step in range(count + 1)}) if size else [0]


def _order_count(size: int) -> int:
    return min(RANDOM_ORDERS, FEWER_ORDERS) if size > LONG else RANDOM_ORDERS


def _random_orders(count: int) -> list[Sequence[int]]:
    """Random orders and their reverses, whose coalitions are the same with the games exchanged: half the passes."""
    shuffles = (np.random.default_rng(seed).permutation(count).tolist() for seed in range(_order_count(count) // 2))
    return [order for shuffle in shuffles for order in (shuffle, shuffle[::-1])]


class _Player:
    """Plays games on one text."""

    def __init__(self, ablation: Ablation, row: Row, target: Any, games: Collection[str]) -> None:
        self.units, self._games = units(row), games
        self._target: Target | None = None  # of a model without classes, whose output is measured
        subject = ablation.subject
        if subject.task == "sequence" and not targets.is_regression(subject):
            self.labels = list(subject.labels)
        else:
            self._target = trace.record(subject, Encoded([row], 0), [target], needs=()).decisions[0].target
            self.labels = [self._target.label]
        self._experiment = Experiment(ablation, DecisionText(subject, row, self._target), self.units)

    def play(self, orders: Sequence[Sequence[int]], steps: Sequence[int], meter: Meter) -> dict[str, Floats]:
        """The model's outputs of each game in several orders, [order, step, label]."""
        played = self._experiment.in_order(orders, steps, self._games, meter)
        return {game: self._outputs(values) for game, values in played.items()}

    def _outputs(self, values: Any) -> Floats:
        """The probabilities of all classes, of logits [order, step, class]; or the one number that is measured."""
        if self._target is not None:
            numbers: Floats = values.double().numpy()[..., None]
            return numbers
        subject, row = self._experiment.ablation.subject, self._experiment.text.row
        decisions = [targets.decide(subject, row, each, None) for each in values.flatten(0, 1)]
        probabilities = np.stack([decision.probabilities.double().numpy() for decision in decisions])
        return probabilities.reshape(*values.shape[:2], -1)


def _around_turns(steps: Sequence[int], outcomes: dict[str, Floats]) -> list[int]:
    """Numbers of words halfway to the step at which each game turns, where more than one word lies in between."""
    turns = [turning_step(game, values) for game, values in outcomes.items()]
    gaps = [(steps[turn - 1], steps[turn]) for turn in turns if turn]
    return sorted({(first + last) // 2 for first, last in gaps if last - first > 1})


def _first(holds: Any) -> int | None:
    places = np.flatnonzero(holds)
    return int(places[0]) if len(places) else None
