"""What hiding methods cost beside captum with ThermoStat's settings: `python -m tests.bench.perturbation`.

demo/news on 32 texts of AG News (from NBSAL_DATA; without it, those that come along), one thread, CPU time. Captum runs
as ThermoStat ran it, one text and one perturbed row at a time, on texts padded to 512 and to the longest of the batch.
It is timed on a few texts (Shapley at 512: one order of 25), and its total for all follows from the number of forwards,
which is the same for every text. Ours is timed in full, every round beside captum's. Then the scores are compared: on
the game that captum plays (tokens become padding in full view), ours must be draws from the same distribution.
"""

import json
import math
import os
import statistics
import warnings
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from captum._utils.models.linear_model import SkLearnLinearModel
from captum.attr import LimeBase, Occlusion, ShapleyValueSampling

import nbsal
from nbsal.methods import catalogue
from tests.bench.measure import cpu
from tests.bench.table import Row, at_least, markdown, missing, parser, spread

SAMPLES = 25
METHODS = {"shapley": nbsal.Shapley(SAMPLES), "lime": nbsal.LIME(SAMPLES), "occlusion": nbsal.Occlusion(3)}
SLOW = ("shapley", "occlusion")  # as many forwards as there are tokens, and more
PADDED = "512"
GOALS = {PADDED: 20, "the longest": 3}


def texts(count: int) -> list[str]:
    """The first texts of AG News's test split, or the news that come along."""
    folder = Path(os.environ.get("NBSAL_DATA", "nowhere")) / "ag_news" / "test.jsonl"
    source = (
        folder.read_text("utf-8") if folder.exists() else (files("nbsal.samples") / "news.jsonl").read_text("utf-8")
    )
    return [json.loads(line)["text"] for line in source.splitlines()[:count]]


class ThermoStat:
    """Captum on one padded text, and how often it ran the model."""

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
            return 1 - torch.sum(ids[0] != other[0]) / 512  # what it is with all the padding

        ridge = SkLearnLinearModel("linear_model.Ridge")
        method = LimeBase(
            self.forward, ridge, similarity, perturbed, False, None, lambda sample, ids, **ignored: sample
        )
        return method.attribute(self.ids, n_samples=SAMPLES, **self.options)[0]


def captum_seconds(
    subject, chosen: list[str], length: int, name: str, samples: int = SAMPLES
) -> tuple[float, float, int]:
    """CPU seconds a forward of captum's, its forwards a text with 25 samples, and how many were timed."""
    cases = [ThermoStat(subject, text, length) for text in chosen]
    with torch.no_grad():
        if name == "shapley":
            seconds = cpu(lambda: [case.shapley(samples) for case in cases])
        else:
            seconds = cpu(lambda: [getattr(case, name)() for case in cases])
    timed = sum(case.forwards for case in cases)
    each = timed / len(cases) if name != "shapley" else 2 + SAMPLES * length
    return seconds / timed, each, timed


def same_shapley(subject, chosen: list[str]) -> Row:
    """Captum's estimate of 25 orders among ours of 25 other orders, in standard errors of their difference."""
    torch.manual_seed(0)
    far = []
    for text in chosen:
        row = subject.encode(text)[0]
        with torch.no_grad():
            theirs = ThermoStat(subject, text, len(row)).shapley().numpy()
        methods = {str(seed): nbsal.Shapley(1, seed=seed, way="pad") for seed in range(SAMPLES)}
        single = np.stack(
            [found[0].scores for found in nbsal.compare(subject, methods, [text], progress=False).values()]
        )
        error = single.std(0, ddof=1) * math.sqrt(2 / SAMPLES)
        inside = list(row.content)
        far.extend((single.mean(0) - theirs)[inside] / error[inside])
    return drawn_alike(f"Shapley, {len(far)} tokens of {len(chosen)} texts", np.array(far))


def drawn_alike(work: str, far) -> Row:
    """How far means of draws are apart, in standard errors of their difference."""
    said = f"mean {far.mean():+.2f}, spread {far.std():.2f}, beyond two {np.mean(np.abs(far) > 2):.1%}"
    print(f"  {work}: ours less captum's in standard errors: {said} (expected 0, 1, 5%)")
    return Row(f"  {work}: ours less captum's, in standard errors", said, goal="about 0, 1 and 5%")


def same_lime(subject, text: str, runs: int = 40) -> Row:
    """Many draws of captum's raw-id regression and of ours with the same settings."""
    torch.manual_seed(0)
    row = subject.encode(text)[0]
    case = ThermoStat(subject, text, len(row))
    with torch.no_grad():
        theirs = np.stack([case.lime().numpy() for _ in range(runs)])
    methods = {str(seed): catalogue.create("lime@thermostat", seed=seed) for seed in range(runs)}
    ours = np.stack([found[0].scores for found in nbsal.compare(subject, methods, [text], progress=False).values()])
    inside = list(row.content)
    error = np.sqrt((ours.var(0, ddof=1) + theirs.var(0, ddof=1)) / runs)
    far = (ours.mean(0) - theirs.mean(0))[inside] / error[inside]
    return drawn_alike(f"LIME on raw ids, {len(far)} tokens, {runs} runs each", far)


def same_occlusion(subject, chosen: list[str]) -> Row:
    """Windows that lie within the content are the same windows."""
    worst = 0.0
    for text in chosen:
        row = subject.encode(text)[0]
        with torch.no_grad():
            theirs = ThermoStat(subject, text, len(row)).occlusion().numpy()
        ours = nbsal.Explainer(subject, nbsal.Occlusion(3, way="pad"))(text).scores
        inner = list(row.content)[2:-2]
        worst = max(worst, float(np.abs(ours - theirs)[inner].max() / np.abs(theirs).max()))
    work = "Occlusion, tokens two and more from special ones: largest difference, of the largest score"
    print(f"  {work} {worst:.1e}")
    return Row(f"  {work}", f"{worst:.1e}")


def results(
    rounds: int = 3, quick: bool = False, count: int = 32, few: int = 2, only: Sequence[str] = tuple(METHODS)
) -> list[Row]:
    """Seconds of hiding methods, captum's and ours."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="sklearn")  # a ridge on raw ids is singular in float32
    count, few = (2, 1) if quick else (count, few)
    subject = nbsal.load("demo/news")
    many = texts(count)
    lengths = [len(row) for row in subject.encode(many)]
    chosen, batch = many[:few], max(lengths)
    print(f"{len(many)} texts of {min(lengths)} to {batch} tokens, mean {statistics.mean(lengths):.0f}; CPU seconds")
    pairs = [(name, length) for name in only for length in GOALS if not (quick and length == PADDED and name in SLOW)]
    ours: dict[str, list[float]] = {name: [] for name in only}
    theirs: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    for _ in range(rounds):
        for name in only:
            explain = nbsal.Explainer(subject, METHODS[name])
            ours[name].append(cpu(lambda explain=explain: explain.map(many, progress=False)))
            print(f"  {name:9} ours, all {len(many)} texts: {ours[name][-1]:7.1f}")
            for length in (length for of, length in pairs if of == name):
                slow = length == PADDED and name in SLOW
                some, orders = (many[:1], 1) if slow else (chosen, 3)
                size = int(PADDED) if length == PADDED else batch
                each, forwards, timed = captum_seconds(subject, some, size, name, orders)
                theirs[name, length].append(each * forwards * len(many))
                print(
                    f"  {name:9} captum at {size:3}: {timed} forwards timed, {each * 1000:.1f} ms each; "
                    f"{forwards:.0f} a text x {len(many)} texts = {theirs[name, length][-1]:8.1f}"
                )
    found = [_row(f"{name}, {len(many)} news", length, ours[name], theirs[name, length]) for name, length in pairs]
    if quick:
        return [*found, missing(f"{' and '.join(SLOW)} padded to {PADDED}", "too long for a quick run")]
    print("the same scores, where captum and we play the same game:")
    return [*found, same_shapley(subject, chosen), same_lime(subject, chosen[0]), same_occlusion(subject, chosen)]


def _row(work: str, length: str, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    ratios = [there / here for there, here in zip(theirs, ours, strict=True)]
    return Row(
        f"{work}, captum's padded to {length}",
        ours=f"{spread(ours, 1)} s",
        peer=f"captum: {spread(theirs, 0)} s",
        ratio=spread(ratios, 1),
        **at_least(GOALS[length], ratios),
    )


def main() -> None:
    options = parser(".perturbation", __doc__)
    options.add_argument("--texts", type=int, default=32)
    options.add_argument("--few", type=int, default=2, help="texts that captum is timed on (one where that is slow)")
    options.add_argument("--only", nargs="*", default=list(METHODS), choices=METHODS, help="methods to time")
    given = options.parse_args()
    print(markdown(results(given.rounds, given.quick, given.texts, given.few, given.only)))


if __name__ == "__main__":
    main()
