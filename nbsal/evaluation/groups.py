"""Groups of explainers that are evaluated one after the other, each saved as soon as it is finished."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from nbsal.evaluation._games import at_layers
from nbsal.evaluation.results import Results, join_results
from nbsal.explain.explainer import Explainer
from nbsal.model.head_mask import HeadMask
from nbsal.model.subject import Subject

RANDOM = 20
NamedExplainers = dict[str, Explainer | list[Explainer]]
Groups = dict[str, NamedExplainers]


def evaluate_groups(
    folder: Path, groups: Groups, evaluate: Callable[[NamedExplainers], Results], minutes: float
) -> Results | None:
    """Join the results of all groups, saved ones and new ones; None if time ran out before the last group began."""
    end = time.monotonic() + 60 * minutes
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.nbsal" for name in groups]
    for path, explainers in zip(paths, groups.values(), strict=True):
        if path.exists():
            continue
        if time.monotonic() > end:
            return None
        start, cpu = time.monotonic(), time.process_time()
        evaluate(explainers).save(path)
        cost = f"{time.monotonic() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU time"
        print(f"  {path.stem}: {cost}", flush=True)
    return join_results([Results.load(path) for path in paths])


def game_groups(subject: Subject, layer: int, baselines: Sequence[str]) -> Groups:
    """The decoded methods at every layer, the random baseline, the chosen layer undecoded, and each baseline."""
    methods = {"Grad-CAM": "decoded-gradcam", "Simple": "decoded-simple"}
    layers = {name: at_layers(Explainer(subject, method)) for name, method in methods.items()}
    groups: Groups = {
        f"decoded-{at}": {f"decoded {name} l{at}": explainers[at] for name, explainers in layers.items()}
        for at in range(subject.depth + 1)
    }
    seeds = {f"random-{i}": range(i, i + 5) for i in range(0, RANDOM, 5)}
    groups |= {name: {"random": random_runs(subject, part)} for name, part in seeds.items()}
    for method, name in (("gradcam", "Grad-CAM"), ("simple", "Simple")):  # each position scores its own token
        groups[f"{method}-{layer}"] = {f"{name} l{layer}": Explainer(subject, method, layer=layer)}
    return groups | single_method_groups(subject, baselines)


def single_method_groups(subject: Subject, names: Iterable[str]) -> Groups:
    """One group for each method of the catalogue, with its default settings."""
    labels = {"gradcam": "Grad-CAM l0", "simple": "Simple l0", "gradxact": "gradxact l0"}
    settings: dict[str, dict[str, Any]] = {name: {"layer": 0} for name in labels}
    return {name: {labels.get(name, name): Explainer(subject, name, **settings.get(name, {}))} for name in names}


def random_masks(subject: Subject) -> Groups:
    """Five random orders, and Mask-LRP with five random head masks of the same size."""
    masks = [Explainer(subject, "mask-lrp", mask=subject.mask.matched_random(seed)) for seed in range(5)]
    return {"random": {"random": random_runs(subject, range(5))}, "random-mask": {"random mask": masks}}


def corrupted_masks(subject: Subject) -> Groups:
    """Mask-LRP with a growing percentage of the excluded heads added to its mask, in five random draws each.

    Heads lose their reasons, each of which would be rescaled separately: so the mask of all heads is transformer
    attribution exactly.
    """
    groups: Groups = {}
    for percent in range(0, 101, 10):
        seeds = range(1 if percent in (0, 100) else 5)
        masks = [HeadMask.from_array(subject.mask.corrupted(percent / 100, seed).selected) for seed in seeds]
        groups[f"{percent}"] = {f"{percent} %": [Explainer(subject, "mask-lrp", mask=mask) for mask in masks]}
    return groups


def random_runs(subject: Subject, seeds: Iterable[int]) -> list[Explainer]:
    """Explainers with random scores."""
    return [Explainer(subject, "random", seed=seed) for seed in seeds]
