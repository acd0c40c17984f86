"""Playing: the Hiding and the Revealing game on one text, step by step, beside orders by chance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nbsal import trace
from nbsal.errors import InputError
from nbsal.evaluation._games import GAMES, coalition_steps
from nbsal.model.masking import MaskedModel
from nbsal.model.subject import Subject
from nbsal.model.targets import decide
from nbsal.model.tokens import Encoded, Row
from nbsal.progress import Meter
from nbsal.saliency import Floats, Saliency

if TYPE_CHECKING:
    import pandas

MOST = 40  # steps of a curve: of a longer text not every token is one
CHANCES = 10  # orders by chance
MARKS = 10  # steps of theirs


@dataclass(frozen=True, eq=False)
class GameLine:
    """One curve: what is followed, at shares of the text's tokens, and the range of orders by chance."""

    name: str
    at: Sequence[float]
    values: Floats
    low: Floats | None = None
    high: Floats | None = None

    @property
    def area(self) -> float:
        """The area under it, by trapezoids."""
        return float(np.trapezoid(self.values, self.at))


@dataclass(frozen=True, eq=False)
class TokenGames:
    """Both games on one text: the outcomes after so many tokens, in the order of importance, and by chance."""

    reading: Saliency
    labels: Sequence[str]
    followed: int  # the outcome whose curve is drawn
    points: Sequence[int]
    outcomes: dict[str, Floats]  # game -> [point, label]
    chance: dict[str, GameLine] | None = None

    def lines(self, game: str) -> list[GameLine]:
        """The method's curve, and that of chance once it is known."""
        size = max(len(self.reading.order), 1)
        own = GameLine(self.reading.method, [k / size for k in self.points], self.outcomes[game][:, self.followed])
        return [own, self.chance[game]] if self.chance else [own]

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each game, curve and step."""
        import pandas

        rows: list[Any] = []
        for game in GAMES:
            for line in self.lines(game):
                empty = np.full(len(line.values), np.nan)
                low, high = (empty, empty) if line.low is None or line.high is None else (line.low, line.high)
                rows += [(game, line.name, *row) for row in zip(line.at, line.values, low, high, strict=True)]
        return pandas.DataFrame(rows, columns=["game", "order", "fraction", self.labels[self.followed], "low", "high"])


def play_games(reading: Saliency, masked_model: MaskedModel, target: Any, meter: Meter) -> Iterator[TokenGames]:
    """Both games along a saliency's order; then again, with those of orders by chance.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> found = nbsal.Explainer(subject, "gradcam")("A warm film.")
    >>> first, both = play_games(found, MaskedModel(subject), None, Meter(None))
    >>> first.points, first.chance is None, both.chance["hiding"].name
    ([0, 1, 2, 3, 4], True, 'by chance')
    """
    subject, row, size = masked_model.subject, reading.row, len(reading.order)
    if len(row) > subject.max_length:
        raise InputError("Tokens are hidden in one reading only: this text is longer than the model reads.")
    points = _spread(size, MOST)
    labels, found = _read(masked_model, row, target, [reading.order], points, meter)
    followed = labels.index(reading.target) if reading.target in labels else int(found["hiding"][0, 0].argmax())
    played = TokenGames(reading, labels, followed, points, {game: values[0] for game, values in found.items()})
    yield played
    orders = [np.random.default_rng(seed).permutation(row.content).tolist() for seed in range(CHANCES)]
    marks = _spread(size, MARKS)
    _, runs = _read(masked_model, row, target, orders, marks, meter)
    yield replace(played, chance={game: _band(runs[game][..., followed], marks, size) for game in GAMES})


def steps_count(size: int) -> int:
    """How many subsets of a text of so many tokens are read."""
    return 2 * (len(_spread(size, MOST)) + CHANCES * len(_spread(size, MARKS)))


def _read(
    masked_model: MaskedModel,
    row: Row,
    target: Any,
    orders: Sequence[Sequence[int]],
    points: Sequence[int],
    meter: Meter,
) -> tuple[list[str], dict[str, Floats]]:
    """Names of outcomes, and each game's outcomes [order, point, outcome]."""
    subject = masked_model.subject
    shares = [k / max(points[-1], 1) for k in points]
    tables = np.concatenate([coalition_steps(row, order, shares) for order in orders])
    if subject.task == "sequence" and len(subject.labels) > 1:
        labels = subject.labels
        (logits,) = masked_model.logits([row], [tables], meter)
        values = np.stack([decide(subject, row, one, None).probabilities.double().numpy() for one in logits])
    else:
        explained = _target(subject, row, target)
        labels = [explained.label]
        values = masked_model.values([row], [tables], [explained], meter)[0].double().numpy()[:, None]
    shaped = values.reshape(len(orders), len(GAMES), len(points), len(labels))
    return labels, {game: shaped[:, at] for at, game in enumerate(GAMES)}


def _target(subject: Subject, row: Row, wanted: Any) -> Any:
    """What is explained of a text, as a sum of logits."""
    return trace.record(subject, Encoded([row], 0), [wanted], needs=()).decisions[0].target


def _band(values: Floats, marks: Sequence[int], size: int) -> GameLine:
    at = [k / max(size, 1) for k in marks]
    return GameLine("by chance", at, values.mean(0), values.min(0), values.max(0))


def _spread(size: int, most: int) -> list[int]:
    """Numbers of tokens from none to all, at most so many steps apart evenly."""
    return sorted({round(size * step / min(size, most)) for step in range(min(size, most) + 1)}) if size else [0]
