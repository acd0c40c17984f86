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
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captum._utils.models.linear_model import SkLearnLinearModel
from captum.attr import LimeBase, Occlusion, ShapleyValueSampling

import nbsal
from nbsal.methods import catalogue
from nbsal.methods.perturbation import Perturbation, units
from nbsal.methods.shapley import all_coalitions, exact_values
from nbsal.model.masking import MaskedModel
from nbsal.model.tokens import Row as TextRow
from tests.bench.measure import cpu
from tests.bench.table import Row, at_least, at_most, markdown, missing, parser, spread

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
    folder = Path(os.environ.get("NBSAL_DATA", "nowhere")) / "ag_news" / "test.jsonl"
    source = (
        folder.read_text("utf-8") if folder.exists() else (files("nbsal.samples") / "news.jsonl").read_text("utf-8")
    )
    return [json.loads(line)["text"] for line in source.splitlines()[:count]]


class ThermoStat:
    """Captum's methods on one padded text; counts its forward passes."""

    def __init__(self, subject, text: str, length: int) -> None:
        self.model, self.forwards = subject.model, 0
        row = subject.encode(text)[0]
        extra = length - len(row)
        self.ids = torch.tensor([[*row.ids, *[0] * extra]])
        self.mask = torch.tensor([[1] * len(row) + [0] * extra])
        self.special = torch.tensor([[*row.special, *[True] * extra]])
        self.baseline = torch.where(self.special, self.ids, 0)
        with torch.no_grad():
            self.options = {
                "target": int(self.forward(self.ids, self.mask).argmax()),
                "additional_forward_args": (self.mask,),
            }
        self.forwards = 0

    def forward(self, ids, mask):
        self.forwards += 1
        return self.model(input_ids=ids, attention_mask=mask).logits

    def shapley(self, samples: int = SAMPLES):
        method = ShapleyValueSampling(self.forward)
        return method.attribute(self.ids, baselines=self.baseline, n_samples=samples, **self.options)[0]

    def occlusion(self):
        return Occlusion(self.forward).attribute(self.ids, sliding_window_shapes=(3,), **self.options)[0]

    def lime(self):
        def perturbed(ids, **ignored):
            hidden = (torch.rand(ids.shape) < 0.3) & ~self.special
            return torch.where(hidden, 0, ids)

        def similarity(ids, other, interpretable, **ignored):
            return 1 - torch.sum(ids[0] != other[0]) / 512  # as computed with padding to 512

        ridge = SkLearnLinearModel("linear_model.Ridge")
        method = LimeBase(
            self.forward, ridge, similarity, perturbed, False, None, lambda sample, ids, **ignored: sample
        )
        return method.attribute(self.ids, n_samples=SAMPLES, **self.options)[0]


def captum_seconds(
    subject, chosen: list[str], length: int, name: str, samples: int = SAMPLES
) -> tuple[float, float, int]:
    """Captum's CPU seconds per forward pass, its forward passes per text with 25 samples, and how many were timed."""
    cases = [ThermoStat(subject, text, length) for text in chosen]
    with torch.no_grad():
        if name == "shapley":
            seconds = cpu(lambda: [case.shapley(samples) for case in cases])
        else:
            seconds = cpu(lambda: [getattr(case, name)() for case in cases])
    timed = sum(case.forwards for case in cases)
    per_text = timed / len(cases) if name != "shapley" else 2 + SAMPLES * length
    return seconds / timed, per_text, timed


def compare_shapley(subject, chosen: list[str]) -> Row:
    """Captum's estimate from 25 permutations and ours from 25 others, in standard errors of their difference."""
    torch.manual_seed(0)
    deviations = []
    for text in chosen:
        row = subject.encode(text)[0]
        with torch.no_grad():
            theirs = ThermoStat(subject, text, len(row)).shapley().numpy()
        methods = {str(seed): nbsal.Shapley(1, seed=seed, way="pad") for seed in range(SAMPLES)}
        single = np.stack(
            [results[0].scores for results in nbsal.compare(subject, methods, [text], progress=False).values()]
        )
        error = single.std(0, ddof=1) * math.sqrt(2 / SAMPLES)
        inside = list(row.content)
        deviations.extend((single.mean(0) - theirs)[inside] / error[inside])
    return compare_draws(f"Shapley, {len(deviations)} tokens of {len(chosen)} texts", np.array(deviations))


def compare_draws(work: str, deviations) -> Row:
    """The row for the differences of means, in standard errors."""
    beyond = np.mean(np.abs(deviations) > 2)
    summary = f"mean {deviations.mean():+.2f}, spread {deviations.std():.2f}, beyond 2 {beyond:.1%}"
    print(f"  {work}: ours minus captum's in standard errors: {summary} (expected 0, 1, 5%)")
    return Row(f"  {work}: ours minus captum's, in standard errors", summary, goal="about 0, 1 and 5%")


def compare_lime(subject, text: str, runs: int = 40) -> Row:
    """Many runs of captum's regression on raw token ids and of ours with the same settings."""
    torch.manual_seed(0)
    row = subject.encode(text)[0]
    case = ThermoStat(subject, text, len(row))
    with torch.no_grad():
        theirs = np.stack([case.lime().numpy() for _ in range(runs)])
    methods = {str(seed): catalogue.create("lime@thermostat", seed=seed) for seed in range(runs)}
    ours = np.stack([results[0].scores for results in nbsal.compare(subject, methods, [text], progress=False).values()])
    inside = list(row.content)
    error = np.sqrt((ours.var(0, ddof=1) + theirs.var(0, ddof=1)) / runs)
    deviations = (ours.mean(0) - theirs.mean(0))[inside] / error[inside]
    return compare_draws(f"LIME on raw ids, {len(deviations)} tokens, {runs} runs each", deviations)


def compare_occlusion(subject, chosen: list[str]) -> Row:
    """Compare the scores of tokens for which both use the same windows, those within the content."""
    worst = 0.0
    for text in chosen:
        row = subject.encode(text)[0]
        with torch.no_grad():
            theirs = ThermoStat(subject, text, len(row)).occlusion().numpy()
        ours = nbsal.Explainer(subject, nbsal.Occlusion(3, way="pad"))(text).scores
        inner = list(row.content)[2:-2]
        worst = max(worst, float(np.abs(ours - theirs)[inner].max() / np.abs(theirs).max()))
    work = "Occlusion, tokens at least two away from special ones: largest difference, relative to the largest score"
    print(f"  {work} {worst:.1e}")
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
        coalitions = all_coalitions(len(row.content))
        shown = np.ones((len(coalitions), len(row)), dtype=bool)
        shown[:, list(row.content)] = coalitions
        return cls(row, MaskedModel(subject).values([row], [shown], [target])[0].double().numpy()[:, None])

    def estimate(self, method: Perturbation) -> tuple[float, int]:
        """The error of an estimate, as a share of the exact values, and how many coalitions it reads."""
        parts = units(self.row, "token")
        table = method.coalitions(self.row, parts)
        numbers = table @ (1 << np.arange(len(parts)))
        exact = exact_values(all_coalitions(len(parts)), self.values)
        difference = method.unit_scores(table, self.values[numbers]) - exact
        return float(np.linalg.norm(difference) / np.linalg.norm(exact)), len(set(numbers.tolist()))


def mean_error(games: Sequence[Game], method: Perturbation) -> tuple[float, float]:
    """The mean error of an estimator over texts and seeds, and the mean number of coalitions that it reads."""
    estimates = [game.estimate(replace(method, seed=seed)) for game in games for seed in range(SEEDS)]
    error, reads = np.mean(estimates, 0)
    return float(error), float(reads)


def compare_estimators(count: int = 4) -> list[Row]:
    """Reads of antithetic orders and of Kernel SHAP for the error of plain orders, as a share of theirs."""
    subject = nbsal.load("demo/reviews")
    reviews = [
        json.loads(line)["text"] for line in (files("nbsal.samples") / "reviews.jsonl").read_text("utf-8").splitlines()
    ]
    chosen = [text for text in reviews if len(subject.encode(text)[0].content) in TOKENS][:count]
    games = [Game.of(subject, text) for text in chosen]
    error, reads = mean_error(games, nbsal.Shapley(SAMPLES, antithetic=False))
    print(f"{len(games)} reviews of {TOKENS[0]} to {TOKENS[-1]} tokens")
    print(f"  {SAMPLES} plain orders: {error:.3f} in {reads:.0f} reads")
    estimators = {
        "antithetic orders": [nbsal.Shapley(samples) for samples in range(1, SAMPLES + 1)],
        "Kernel SHAP": [nbsal.KernelShap(samples) for samples in BUDGETS],
    }
    rows = []
    for name, methods in estimators.items():
        as_good = (result for method in methods if (result := mean_error(games, method))[0] <= error)
        own_error, own_reads = next(as_good, (math.nan, math.inf))
        print(f"  {name}: {own_error:.3f} in {own_reads:.0f} reads")
        goal = at_most(FEWER_READS, own_reads / reads) if name == "Kernel SHAP" else {}
        rows.append(
            Row(
                f"reads for the error of {SAMPLES} plain orders, {name}",
                ours=f"{own_reads:.0f}",
                peer=f"plain orders: {reads:.0f}",
                ratio=f"{own_reads / reads:.2f}",
                **goal,
            )
        )
    for method in (nbsal.Shapley(SAMPLES), nbsal.KernelShap(50), nbsal.KernelShap(100), nbsal.KernelShap(round(reads))):
        same_error, same_reads = mean_error(games, method)
        print(f"  {method.name}, {method.samples} samples: {same_error:.3f} in {same_reads:.0f} reads")
    return rows


def results(
    rounds: int = 3, quick: bool = False, count: int = 32, few: int = 2, only: Sequence[str] = tuple(METHODS)
) -> list[Row]:
    """Seconds of perturbation methods, with captum and with ours."""
    torch.set_num_threads(1)
    estimators = compare_estimators(count=1 if quick else 4)
    if not only:
        return estimators
    warnings.filterwarnings("ignore", module="sklearn")  # a ridge on raw ids is singular in float32
    count, few = (2, 1) if quick else (count, few)
    subject = nbsal.load("demo/news")
    many = texts(count)
    lengths = [len(row) for row in subject.encode(many)]
    chosen, batch = many[:few], max(lengths)
    mean = statistics.mean(lengths)
    print(f"{len(many)} texts of {min(lengths)} to {batch} tokens, mean {mean:.0f}; seconds of CPU time")
    pairs = [(name, length) for name in only for length in GOALS if not (quick and length == PADDED and name in SLOW)]
    ours: dict[str, list[float]] = {name: [] for name in only}
    theirs: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    for _ in range(rounds):
        for name in only:
            explain = nbsal.Explainer(subject, METHODS[name])
            ours[name].append(cpu(lambda explain=explain: explain.map(many, progress=False)))
            print(f"  {name:9} ours, all {len(many)} texts: {ours[name][-1]:7.1f}")
            for length in (length for method, length in pairs if method == name):
                slow = length == PADDED and name in SLOW
                timed_texts, samples = (many[:1], 1) if slow else (chosen, 3)
                size = int(PADDED) if length == PADDED else batch
                per_forward, forwards, timed = captum_seconds(subject, timed_texts, size, name, samples)
                theirs[name, length].append(per_forward * forwards * len(many))
                print(
                    f"  {name:9} captum at {size:3}: {timed} forward passes timed, {per_forward * 1000:.1f} ms each; "
                    f"{forwards:.0f} per text x {len(many)} texts = {theirs[name, length][-1]:8.1f}"
                )
    table_rows = [_row(f"{name}, {len(many)} news", length, ours[name], theirs[name, length]) for name, length in pairs]
    if quick:
        return [
            *estimators,
            *table_rows,
            missing(f"{' and '.join(SLOW)} padded to {PADDED}", "too long for a quick run"),
        ]
    print("differences of scores if captum and ours hide tokens alike:")
    return [
        *estimators,
        *table_rows,
        compare_shapley(subject, chosen),
        compare_lime(subject, chosen[0]),
        compare_occlusion(subject, chosen),
    ]


def _row(work: str, length: str, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    ratios = [their_seconds / our_seconds for their_seconds, our_seconds in zip(theirs, ours, strict=True)]
    return Row(
        f"{work}, captum padded to {length}",
        ours=f"{spread(ours, 1)} s",
        peer=f"captum: {spread(theirs, 0)} s",
        ratio=spread(ratios, 1),
        **at_least(GOALS[length], ratios),
    )


def main() -> None:
    arguments = parser(".perturbation", __doc__)
    arguments.add_argument("--texts", type=int, default=32)
    arguments.add_argument(
        "--few", type=int, default=2, help="number of texts on which captum is timed (one for slow methods)"
    )
    arguments.add_argument("--only", nargs="*", default=list(METHODS), choices=METHODS, help="methods to time")
    options = arguments.parse_args()
    print(markdown(results(options.rounds, options.quick, options.texts, options.few, options.only)))


if __name__ == "__main__":
    main()
