"""Scores followed through the reply: what a token owes to the reply before it, which in turn owes it to the prompt.

Hop 0 is the row of a part itself. At hop n, the tokens of the reply are read with what they received at hop n - 1 as
weights, and the prompt gets the scores of that hop times the share that has flowed into the reply so far.
"""

from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, Protocol

import numpy as np

from nbsal.explain.scoring.running import ReplyMethod
from nbsal.model.target import Target
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.validation import whole_number

ALL: Literal["all"] = "all"
SUMMED_HOPS = "averaged, hops summed"  # how a method whose hops are sums reads a span, in the provenance
NEGLIGIBLE = 1e-9  # share in the reply at which "all" hops end, and a number of them that is larger than the reply
Count = int | Literal["all"]


def check_hops(hops: Any) -> Count:
    """A number of hops, or "all"."""
    if isinstance(hops, str) and hops == ALL:
        return ALL
    try:
        number = whole_number(hops, "hops")
    except InputError:
        number = -1
    if number < 0:
        message = f"hops={hops!r:.40} must be 0 (scores as they are), a number of hops, or {ALL!r}."
        raise InputError(message, argument="hops", value=hops)
    return number


@dataclass(frozen=True, eq=False)
class Hops:
    """The scores of some parts of a reply after some hops.

    `scores`, [part, token of prompt and reply], hold what reached the prompt, and what the last hop left in the reply.
    `arrived`, [hop, part], are the shares that reached the prompt at each hop; `carried`, [hop, part, token of the
    reply], those that flowed into each token of the reply, to be read at the next hop. What scores of both signs cancel
    is in neither. `without`, [word, token of the reply], are the log-probabilities without each word of the reply, if
    they were measured.
    """

    hops: Count
    scores: Floats
    arrived: Floats
    carried: Floats
    without: Floats | None = None

    @property
    def provenance(self) -> dict[str, Any]:
        """Of the only part: the share of its scores that arrived at each hop, was left in the reply, or cancelled."""
        left = float(np.abs(self.carried[-1]).sum())
        arrived = self.arrived[:, 0].tolist()
        shares = {"arrived": arrived, "left in the reply": left, "cancelled": float(self.cancelled[0])}
        return {"hops": self.hops, "shares": shares}

    @property
    def cancelled(self) -> Floats:
        """The share of each part that scores of both signs have cancelled."""
        left = np.abs(self.carried[-1]).sum(-1)
        empty = (self.arrived.sum(0) + left) == 0
        lost: Floats = np.where(empty, 0.0, 1 - self.arrived.sum(0) - left)
        return lost


class Reader(Protocol):
    """Gives rows for weights of the tokens of the reply; the sizes of a part's weights sum to 1, or they are all 0."""

    def read(self, weights: Floats) -> Floats:
        """The scores, [part, token of prompt and reply], of the reply's tokens at those weights."""

    def sizes(self, rows: Floats) -> Floats:
        """What the share that reaches a token is a share of, [part, 1]."""


@dataclass(frozen=True, eq=False)
class RowReader:
    """Mixes the rows of the reply's tokens, each scaled to sum to 1 in size: every method that has them."""

    rows: Floats

    def read(self, weights: Floats) -> Floats:
        """The weighted sum of the rows."""
        scores: Floats = weights @ scaled(self.rows)
        return scores

    def sizes(self, rows: Floats) -> Floats:
        """1, since a mixture of rows that sum to 1 does so too, but for what cancels."""
        return np.ones((len(rows), 1))


@dataclass(frozen=True, eq=False)
class SpanReader:
    """Explains the reply's own positions as one weighted span: a method that averages a span first, such as IFR.

    `sums` leaves scores as the method gives them, sums over blocks; otherwise they are shares.
    """

    running: ReplyMethod
    sums: bool

    def read(self, weights: Floats) -> Floats:
        """The scores of a target at the positions of the reply's tokens, from one forward pass for all parts."""
        start = self.running.reading.start
        chosen = np.flatnonzero(weights.any(1))
        targets = [
            Target("", tuple(((start + int(token), 0), float(row[token])) for token in np.flatnonzero(row)))
            for row in weights[chosen]
        ]
        rows = np.zeros((len(weights), start + weights.shape[1]))
        if targets:
            rows[chosen] = self.running.score_targets(targets)
        return rows if self.sums else scaled(rows)

    def sizes(self, rows: Floats) -> Floats:
        """The sums of the rows, which depend on how much each block's residual connection takes."""
        sizes: Floats = np.abs(rows).sum(1, keepdims=True)
        return sizes


def follow(part_rows: Floats, start: int, reader: Reader, hops: Count) -> Hops:
    """Follow rows, [part, token of prompt and reply], through the reply, which begins at `start`.

    >>> rows = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]])  # one token of the prompt, two of the reply
    >>> result = follow(rows, 1, RowReader(rows), 1)
    >>> result.scores.tolist(), result.arrived[:, 1].tolist()
    ([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [0.25, 0.75])
    """
    row, share = part_rows, np.ones((len(part_rows), 1))
    scores, arrived, carried = np.zeros_like(part_rows), list[Floats](), list[Floats]()
    for hop in count():
        sizes = reader.sizes(row)
        shares = share * row / np.where(sizes, sizes, 1.0)
        arrived.append(np.abs(shares[:, :start]).sum(1))
        carried.append(shares[:, start:])
        scores[:, :start] += share * row[:, :start]
        left = np.abs(carried[-1]).sum(1, keepdims=True)
        enough = NEGLIGIBLE if hops == ALL or hop >= shares.shape[1] - start else 0.0
        if hop == hops or left.max(initial=0.0) <= enough:
            break
        row, share = reader.read(carried[-1] / np.where(left, left, 1.0)), left
    scores[:, start:] = share * row[:, start:]
    return Hops(hops, scores, np.array(arrived), np.array(carried))


def follow_answer(answer: Any, rows: Floats, hops: Count) -> Hops:
    """Follow rows of an `Answer`, [part, token of prompt and reply], by the reader that its method needs.

    All hops are always by rows, which solves for them without the model.
    """
    if not answer.can_follow:
        raise no_rows(answer.method, hops)
    start = answer.reading.start
    span = answer.provenance.get("span")
    if span is None or hops == ALL:
        return follow(scaled(rows), start, RowReader(answer.scores), hops)
    if answer.running is None:
        message = (
            f"{answer.method} reads the model at each hop, and this answer was loaded without it. "
            "Call nbsal.answer again."
        )
        raise InputError(message, argument="hops", value=hops)
    sums = span == SUMMED_HOPS
    return follow(rows if sums else scaled(rows), start, SpanReader(answer.running, sums), hops)


def no_rows(method: str, hops: Count) -> InputError:
    """The error for a method that has no scores of the reply's tokens."""
    message = (
        f"{method} hides parts of the prompt, so the reply's own tokens have no scores to follow. Leave out "
        f"hops={hops!r}, or choose a method such as gae or ifr."
    )
    return InputError(message, argument="hops", value=hops)


def scaled(rows: Floats) -> Floats:
    """Rows that sum to 1 in size; those of zeros stay."""
    sizes = np.abs(rows).sum(1, keepdims=True)
    result: Floats = rows / np.where(sizes, sizes, 1.0)
    return result
