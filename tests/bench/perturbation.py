"""The cost of perturbation methods, compared with captum as in ThermoStat: `python -m tests.bench.perturbation`.

demo/news on 32 texts of AG News (from NBSAL_DATA, else the packaged news), one thread, CPU time. Captum runs as in
ThermoStat, one text and one perturbed row at a time, on texts padded to 512 tokens and to the longest of the batch. It
is timed on a few texts (Shapley at 512: one permutation of 25), and its total is extrapolated from the number of
forward passes, which is the same for every text. Ours is timed in full, alternating with captum. Then the scores are
compared: if tokens are hidden as in captum (replaced by padding that attention can see), ours must have the same
distribution.

`--only` without names runs what is measured in passes alone: how many masked versions of a text antithetic orders and
Kernel SHAP read for the error that 25 plain orders have against the exact Shapley values.
"""

import json
import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captum._utils.models.linear_model import SkLearnLinearModel
from captum.attr import LimeBase, Occlusion, ShapleyValueSampling

import nbsal
from nbsal.ablation import tables
from nbsal.ablation.decision import DecisionText
from nbsal.ablation.engine import Ablation
from nbsal.methods import catalogue
from nbsal.methods.perturbation import Perturbation, units
from nbsal.methods.shapley import exact_values
from nbsal.model.text.tokens import Row as TextRow
from tests.bench import table
from tests.bench.measure import cpu
from tests.bench.table import Row, at_least, at_most, spread

SAMPLES = 25
METHODS = {"shapley": nbsal.Shapley(SAMPLES), "lime": nbsal.LIME(SAMPLES), "occlusion": nbsal.Occlusion(3)}
SLOW = ("shapley", "occlusion")  # at least one forward pass per token
PADDED = "512"
GOALS = {PADDED: 20, "the longest text": 3}
TOKENS = range(9, 12)  # of texts whose Shapley values are computed exactly
SEEDS = 20  # of each estimator on each text
BUDGETS = range(10, 201, 2)  # of Kernel SHAP
FEWER_READS = 0.35  # of those of plain orders


def texts(count: int) -> list[str]:
    """The first texts of AG News's test split, or the packaged news."""
    path = Path(os.environ.get("NBSAL_DATA", "nowhere")) / "ag_news" / "test.jsonl"
    rows = [json.loads(row) for row in path.read_text("utf-8").splitlines()] if path.exists() else None
    return [row["text"] for row in rows or nbsal.samples.texts("news")][:count]


class ThermoStat:
    """Captum's methods on one padded text, or one that is not padded; counts its forward passes."""

    def __init__(self, subject, text: str, length: int = 0) -> None:
        self.model, self.row = subject.model, subject.encode(text)[0]
        extra = max(length - len(self.row), 0)
        self.ids = torch.tensor([[*self.row.ids, *[0] * extra]])
        self.mask = torch.tensor([[1] * len(self.row) + [0] * extra])
        self.special = torch.tensor([[*self.row.special, *[True] * extra]])
        with torch.no_grad():
            target = int(self.forward(self.ids, self.mask).argmax())
        self.options = {"target": target, "additional_forward_args": (self.mask,)}
        self.forwards = 0

    forwards = 0

    def forward(self, ids, mask):
        self.forwards += 1
        return self.model(input_ids=ids, attention_mask=mask).logits

    @torch.no_grad()
    def run(self, name: str, samples: int = SAMPLES):
        """The scores of a method."""
        return getattr(self, name)(samples)[0].numpy()

    def shapley(self, samples: int):
        baseline = torch.where(self.special, self.ids, 0)
        method = ShapleyValueSampling(self.forward)
        return method.attribute(self.ids, baselines=baseline, n_samples=samples, **self.options)

    def occlusion(self, samples: int):
        return Occlusion(self.forward).attribute(self.ids, sliding_window_shapes=(3,), **self.options)

    def lime(self, samples: int):
        def perturbed(ids, **ignored):
            hidden = (torch.rand(ids.shape) < 0.3) & ~self.special
            return torch.where(hidden, 0, ids)

        def similarity(ids, other, interpretable, **ignored):
            return 1 - torch.sum(ids[0] != other[0]) / 512  # as computed with padding to 512

        ridge, same = SkLearnLinearModel("linear_model.Ridge"), lambda sample, ids, **ignored: sample
        method = LimeBase(self.forward, ridge, similarity, perturbed, False, None, same)
        return method.attribute(self.ids, n_samples=SAMPLES, **self.options)


def captum_seconds(subject, chosen: list[str], length: int, name: str, slow: bool) -> float:
    """Captum's CPU seconds for one text with 25 samples, from a few texts, or a single sample of one if it is slow."""
    cases = [ThermoStat(subject, text, length) for text in (chosen[:1] if slow else chosen)]
    samples = (1 if slow else 3) if name == "shapley" else SAMPLES
    seconds = cpu(lambda: [case.run(name, samples) for case in cases])
    passes = sum(case.forwards for case in cases)
    return seconds / passes * (2 + SAMPLES * length if name == "shapley" else passes / len(cases))


def scores_of(subject, methods: list[Any], text: str):
    """Our scores of a text by each method."""
    named = {str(number): method for number, method in enumerate(methods)}
    compared = nbsal.compare(subject, named, [text], progress=False)
    return np.stack([explained[0].scores for explained in compared.values()])


def compare_shapley(subject, chosen: list[str]) -> Row:
    """Captum's estimate from 25 permutations and ours from 25 others, in standard errors of their difference."""
    torch.manual_seed(0)
    deviations = []
    for text in chosen:
        case = ThermoStat(subject, text)
        single = scores_of(subject, [nbsal.Shapley(1, seed=seed, way="pad") for seed in range(SAMPLES)], text)
        error = single.std(0, ddof=1) * math.sqrt(2 / SAMPLES)
        inside = list(case.row.content)
        deviations.extend((single.mean(0) - case.run("shapley"))[inside] / error[inside])
    return compare_draws(f"Shapley, {len(deviations)} tokens of {len(chosen)} texts", np.array(deviations))


def compare_lime(subject, text: str, runs: int = 40) -> Row:
    """Many runs of captum's regression on raw token ids and of ours with the same settings."""
    torch.manual_seed(0)
    case = ThermoStat(subject, text)
    theirs = np.stack([case.run("lime") for _ in range(runs)])
    ours = scores_of(subject, [catalogue.create("lime@thermostat", seed=seed) for seed in range(runs)], text)
    inside = list(case.row.content)
    error = np.sqrt((ours.var(0, ddof=1) + theirs.var(0, ddof=1)) / runs)
    deviations = (ours.mean(0) - theirs.mean(0))[inside] / error[inside]
    return compare_draws(f"LIME on raw ids, {len(deviations)} tokens, {runs} runs each", deviations)


def compare_draws(work: str, deviations) -> Row:
    """The row for the differences of means, in standard errors."""
    beyond = np.mean(np.abs(deviations) > 2)
    summary = f"mean {deviations.mean():+.2f}, spread {deviations.std():.2f}, beyond 2 {beyond:.1%}"
    return Row(f"  {work}: ours minus captum's, in standard errors", summary, goal="about 0, 1 and 5%")


def compare_occlusion(subject, chosen: list[str]) -> Row:
    """Compare the scores of tokens for which both use the same windows, those within the content."""
    worst = 0.0
    for text in chosen:
        case = ThermoStat(subject, text)
        theirs, (ours,) = case.run("occlusion"), scores_of(subject, [nbsal.Occlusion(3, way="pad")], text)
        inner = list(case.row.content)[2:-2]
        worst = max(worst, float(np.abs(ours - theirs)[inner].max() / np.abs(theirs).max()))
    work = "Occlusion, tokens at least two away from special ones: largest difference, relative to the largest score"
    return Row(f"  {work}", f"{worst:.1e}")


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


def compare_estimators(count: int) -> list[Row]:
    """Reads of antithetic orders and of Kernel SHAP for the error of plain orders, as a share of theirs."""
    subject = nbsal.load("demo/reviews")
    reviews = [row["text"] for row in nbsal.samples.texts("reviews")]
    chosen = [text for text in reviews if len(subject.encode(text)[0].content) in TOKENS][:count]
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


def results(rounds: int = 3, quick: bool = False, only: Sequence[str] = tuple(METHODS)) -> list[Row]:
    """Seconds of perturbation methods, with captum and with ours."""
    torch.set_num_threads(1)
    rows = compare_estimators(1 if quick else 4)
    if not only:
        return rows
    warnings.filterwarnings("ignore", module="sklearn")  # a ridge on raw ids is singular in float32
    subject, many = nbsal.load("demo/news"), texts(2 if quick else 32)
    chosen, longest = many[: 1 if quick else 2], max(map(len, subject.encode(many)))
    sizes = {PADDED: int(PADDED), "the longest text": longest}
    for name in only:
        explain = nbsal.Explainer(subject, METHODS[name])
        ours, theirs = [], {length: [] for length in GOALS if not (quick and length == PADDED and name in SLOW)}
        for _ in range(rounds):
            ours.append(cpu(lambda explain=explain: explain.map(many, progress=False)))
            for length, seconds in theirs.items():
                slow = length == PADDED and name in SLOW
                seconds.append(len(many) * captum_seconds(subject, chosen, sizes[length], name, slow))
        for length, seconds in theirs.items():
            ratios = [their_seconds / own for their_seconds, own in zip(seconds, ours, strict=True)]
            rows.append(
                Row(
                    f"{name}, {len(many)} news, captum padded to {length}",
                    ours=f"{spread(ours, 1)} s",
                    peer=f"captum: {spread(seconds, 0)} s",
                    ratio=spread(ratios, 1),
                    **at_least(GOALS[length], ratios),
                )
            )
    if quick:
        return rows
    shapley, lime = compare_shapley(subject, chosen), compare_lime(subject, chosen[0])
    return [*rows, shapley, lime, compare_occlusion(subject, chosen)]


if __name__ == "__main__":
    table.main(results, __doc__, only={"nargs": "*", "default": tuple(METHODS), "choices": METHODS})
