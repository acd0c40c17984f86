"""How many masked versions of a text estimates of Shapley values read: `python -m tests.bench.perturbation`.

Reviews of 9 to 11 tokens with demo/reviews, whose Shapley values are computed exactly, from all coalitions. Antithetic
orders and Kernel SHAP read fewer versions for the error that 25 plain orders have. Reads are counted, nothing is timed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import nbsal
from nbsal.ablation import tables
from nbsal.ablation.decision import DecisionText
from nbsal.ablation.engine import Ablation
from nbsal.methods.perturbation import Perturbation, units
from nbsal.methods.shapley import exact_values
from nbsal.model.text.tokens import Row as TextRow
from tests.bench import table
from tests.bench.table import Row, at_most

SAMPLES = 25
TOKENS = range(9, 12)  # of texts whose Shapley values are computed exactly
SEEDS = 20  # of each estimator on each text
BUDGETS = range(10, 201, 2)  # of Kernel SHAP
FEWER_READS = 0.35  # of those of plain orders


@dataclass(frozen=True)
class Game:
    """A text with the target values of all coalitions of its tokens."""

    row: TextRow
    values: Any

    @classmethod
    def of(cls, subject, text: str) -> "Game":
        row = subject.encode(text)[0]
        target = nbsal.trace.record(subject, subject.encode(text), needs=()).decisions[0].target
        coalitions = tables.every(len(row.content))
        shown = np.ones((len(coalitions), len(row)), dtype=bool)
        shown[:, list(row.content)] = coalitions
        (values,) = Ablation(subject).values([DecisionText(subject, row, target)], [shown])
        return cls(row, values.double().numpy()[:, None])

    def estimate(self, method: Perturbation) -> tuple[float, int]:
        """The error of an estimate, as a share of the exact values, and how many coalitions it reads."""
        parts = units(self.row, "token")
        coalitions = method.coalitions(self.row, parts)
        numbers = coalitions @ (1 << np.arange(len(parts)))
        exact = exact_values(tables.every(len(parts)), self.values)
        difference = method.unit_scores(coalitions, self.values[numbers]) - exact
        return float(np.linalg.norm(difference) / np.linalg.norm(exact)), len(set(numbers.tolist()))


def mean_error(games: Sequence[Game], method: Perturbation) -> tuple[float, float]:
    """The mean error of an estimator over texts and seeds, and the mean number of coalitions that it reads."""
    estimates = [game.estimate(replace(method, seed=seed)) for game in games for seed in range(SEEDS)]
    error, reads = np.mean(estimates, 0)
    return float(error), float(reads)


def results(rounds: int = 1, quick: bool = False) -> list[Row]:
    """Reads of antithetic orders and of Kernel SHAP for the error of plain orders, as a share of theirs."""
    del rounds
    subject = nbsal.load("demo/reviews")
    reviews = [row["text"] for row in nbsal.samples.texts("reviews")]
    chosen = [text for text in reviews if len(subject.encode(text)[0].content) in TOKENS][: 1 if quick else 4]
    games = [Game.of(subject, text) for text in chosen]
    error, reads = mean_error(games, nbsal.Shapley(SAMPLES, antithetic=False))
    estimators = {
        "antithetic orders": [nbsal.Shapley(samples) for samples in range(1, SAMPLES + 1)],
        "Kernel SHAP": [nbsal.KernelShap(samples) for samples in BUDGETS],
    }
    rows = []
    for name, methods in estimators.items():
        as_good = (result for method in methods if (result := mean_error(games, method))[0] <= error)
        _, own_reads = next(as_good, (math.nan, math.inf))
        rows.append(
            Row(
                f"reads for the error of {SAMPLES} plain orders, {name}",
                ours=f"{own_reads:.0f}",
                peer=f"plain orders: {reads:.0f}",
                ratio=f"{own_reads / reads:.2f}",
                **(at_most(FEWER_READS, own_reads / reads) if name == "Kernel SHAP" else {}),
            )
        )
    return rows


if __name__ == "__main__":
    table.main(results, __doc__)
