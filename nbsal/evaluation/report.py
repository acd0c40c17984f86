"""Prints how explanations of the embedded models fare on benchmark tables: `python -m nbsal.evaluation.report games`.

Beside `games` there are `faithfulness`, `corruption` (of Mask-LRP's mask) and `overlap`.
Rows come from NBSAL_DATA or the hub. What is done is kept in a folder, explainers by groups; a run that was stopped,
by hand or by `--minutes`, goes on from there, and the cost of every group is printed.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from nbsal import data, samples
from nbsal.evaluation._faithfulness import faithfulness
from nbsal.evaluation._games import at_layers, best_layer, games
from nbsal.evaluation._overlap import overlap
from nbsal.evaluation.cache import Cache
from nbsal.evaluation.results import Results, join_results
from nbsal.explainer import Explainer
from nbsal.methods import catalogue
from nbsal.model.load import load
from nbsal.model.subject import Subject
from nbsal.validation import Text

TENTHS = tuple(step / 10 for step in range(11))
SHORTEST = 14
RANDOM = 20
READINGS = ("mask-lrp@published", "mask-lrp@equations")
Members = dict[str, Explainer | list[Explainer]]
Groups = dict[str, Members]


@dataclass(frozen=True)
class Task:
    """An embedded model, the rows it is judged on, and the rows a layer is chosen on."""

    name: str
    table: str
    split: str
    choosing: str

    def rows(self, split: str, most: int | None, **filters: Any) -> tuple[list[Text], list[int]]:
        """Texts and labels; of more than `most` rows a sample."""
        frame = data.load(self.table, split, **filters)
        if most and most < len(frame):
            frame = frame.sample(most, random_state=0)
        return data.texts(frame), frame["label"].tolist()


TASKS = {
    "reviews": Task("demo/reviews", "sst2", "validation", "train"),
    "news": Task("demo/news", "ag_news", "test", "train"),
}


class Folder:
    """Results of one evaluation by group, each written as soon as it is there."""

    def __init__(self, path: Path, minutes: float) -> None:
        self.path = path
        self.end = time.monotonic() + 60 * minutes
        self.missing: list[str] = []
        path.mkdir(parents=True, exist_ok=True)

    def all(self, groups: Groups, evaluate: Callable[[Members], Results]) -> Results:
        """Results of every group: those of earlier runs, and new ones until the time is up."""
        found = []
        for name, explainers in groups.items():
            stored = self.path / f"{name}.npz"
            if not stored.exists() and time.monotonic() > self.end:
                self.missing.append(name)
                continue
            if not stored.exists():
                start, cpu = time.monotonic(), time.process_time()
                evaluate(explainers).save(stored)
                cost = f"{time.monotonic() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU"
                stored.with_suffix(".txt").write_text(cost + "\n", encoding="utf-8")
            print(f"  {name}: {stored.with_suffix('.txt').read_text(encoding='utf-8').strip()}", flush=True)
            found.append(Results.load(stored))
        if not found:
            raise SystemExit("Time is up before anything was done: give it more minutes.")
        return join_results(found)


def plain_names() -> list[str]:
    """The catalogue's methods that are no variants and need no layer to be chosen."""
    families = catalogue.table()["family"]
    return [name for name in families.index[families != "decoding"] if "@" not in name and name != "random"]


def game_groups(subject: Subject, layer: int, baselines: Sequence[str]) -> Groups:
    """Every layer of the decoded methods, chance, the chosen layer undecoded, and the baselines one by one."""
    methods = {"Grad-CAM": "decoded-gradcam", "Simple": "decoded-simple"}
    layers = {name: at_layers(Explainer(subject, method)) for name, method in methods.items()}
    found: Groups = {
        f"decoded-{at}": {f"decoded {name} l{at}": every[at] for name, every in layers.items()}
        for at in range(subject.depth + 1)
    }
    seeds = {f"random-{i}": range(i, i + 5) for i in range(0, RANDOM, 5)}
    found |= {name: {"random": random_methods(subject, part)} for name, part in seeds.items()}
    return found | undecoded(subject, layer) | one_each(subject, baselines)


def undecoded(subject: Subject, layer: int) -> Groups:
    """The layer that was chosen, every position scoring itself."""
    names = {"gradcam": "Grad-CAM", "simple": "Simple"}
    return {f"{m}-{layer}": {f"{name} l{layer}": Explainer(subject, m, layer=layer)} for m, name in names.items()}


def one_each(subject: Subject, names: Iterable[str]) -> Groups:
    """Methods of the catalogue as they are, each a group of its own."""
    shown = {"gradcam": "Grad-CAM l0", "simple": "Simple l0", "gradxact": "gradxact l0"}
    return {name: {shown.get(name, name): Explainer(subject, name)} for name in names}


def random_masks(subject: Subject) -> Groups:
    """Scores by chance, and Mask-LRP with as many heads at random places; five of each."""
    masks = [Explainer(subject, "mask-lrp", mask=subject.mask.matched_random(seed)) for seed in range(5)]
    return {"random": {"random": random_methods(subject, range(5))}, "random-mask": {"random mask": masks}}


def corrupted_masks(subject: Subject) -> Groups:
    """Mask-LRP while ever more of the heads left out are let in, five times at random, named after their share."""
    groups: Groups = {}
    for percent in range(0, 101, 20):
        seeds = range(1 if percent in (0, 100) else 5)
        masks = [subject.mask.corrupted(percent / 100, seed) for seed in seeds]
        groups[f"{percent}"] = {f"{percent} %": [Explainer(subject, "mask-lrp", mask=mask) for mask in masks]}
    return groups


def random_methods(subject: Subject, seeds: Iterable[int]) -> list[Explainer]:
    """Explainers that score by chance."""
    return [Explainer(subject, "random", seed=seed) for seed in seeds]


def report_games(task: Task, options: argparse.Namespace) -> list[str]:
    """Both games for every layer of the decoded methods and every baseline, and the margins of the chosen layer."""
    subject, cache = load(task.name), Cache()
    rows, labels = task.rows(task.split, options.texts)
    kept = Folder(options.keep / f"games-{task.table}-{len(rows)}", options.minutes)
    layer = chosen_layer(subject, task, options.choosing, kept.path)
    print(f"{task.name} on {task.table} ({task.split}), {len(rows)} texts, 11 points, gold labels")
    chosen_on = f"{options.choosing} texts of {task.choosing}, {SHORTEST} tokens or more"
    print(f"layer {layer}, chosen by decoded Grad-CAM on {chosen_on}", flush=True)

    def play(explainers: Members) -> Results:
        return games(explainers, rows, labels, fractions=TENTHS, random=0, cache=cache, progress=False)

    found = kept.all(game_groups(subject, layer, options.baselines), play)
    print(side_by_side(found.auc(), "auc", "revealing").to_string())
    print(found.spread().round(3).to_string(index=False))
    print_margins(found, f"decoded Grad-CAM l{layer}")
    return kept.missing


def report_faithfulness(task: Task, options: argparse.Namespace) -> list[str]:
    """AOPC and its kin for the baselines of Mask-LRP, its readings, five masks by chance, and chance."""
    subject, cache = load(task.name), Cache()
    rows, _ = task.rows(task.split, options.texts, shortest=SHORTEST, tokenizer=subject.tokenizer)
    kept = Folder(options.keep / f"faithfulness-{task.table}-{len(rows)}", options.minutes)
    print(
        f"{task.name} on {task.table} ({task.split}), {len(rows)} texts of {SHORTEST} tokens or more, predicted class"
    )
    layers: Groups = {"decoded": {f"decoded Grad-CAM l{samples.DEFAULT_LAYER}": Explainer(subject, "decoded-gradcam")}}
    groups = random_masks(subject) | layers | undecoded(subject, samples.DEFAULT_LAYER)
    groups |= one_each(subject, [*options.baselines, *READINGS])
    found = kept.all(groups, lambda some: faithfulness(some, rows, cache=cache, progress=False))
    print(side_by_side(found.mean(), "mean", "aopc").to_string())
    print(found.spread().round(4).to_string(index=False))
    print_margins(found, "mask-lrp", measures=("aopc", "log-odds"))
    return kept.missing


def report_corruption(task: Task, options: argparse.Namespace) -> list[str]:
    """AOPC and log-odds of Mask-LRP while ever more of the heads left out are let in, five times at random."""
    subject, cache = load(task.name), Cache()
    rows, _ = task.rows(task.split, options.texts, shortest=SHORTEST, tokenizer=subject.tokenizer)
    kept = Folder(options.keep / f"corruption-{task.table}-{len(rows)}", options.minutes)
    print(f"{task.name} on {task.table} ({task.split}), {len(rows)} texts of {SHORTEST} tokens or more")
    found = kept.all(corrupted_masks(subject), lambda some: faithfulness(some, rows, cache=cache, progress=False))
    print(side_by_side(found.mean(), "mean", None).to_string())
    print(found.spread().query("measure in ('aopc', 'log-odds')").round(4).to_string(index=False))
    return kept.missing


def report_overlap(task: Task, options: argparse.Namespace) -> list[str]:
    """How many of the first 10 to 100 tokens pairs of classes share."""
    subject, cache = load(task.name), Cache()
    rows, _ = task.rows(task.split, options.texts)
    kept = Folder(options.keep / f"overlap-{task.table}-{len(rows)}", options.minutes)
    print(f"{task.name} on {task.table} ({task.split}), {len(rows)} texts")
    layers: Groups = {"decoded": {f"decoded Grad-CAM l{samples.DEFAULT_LAYER}": Explainer(subject, "decoded-gradcam")}}
    layers |= {"decoded-simple": {f"decoded Simple l{samples.DEFAULT_LAYER}": Explainer(subject, "decoded-simple")}}
    groups = (
        layers | undecoded(subject, samples.DEFAULT_LAYER) | {"random": {"random": random_methods(subject, range(5))}}
    )
    groups |= one_each(subject, options.baselines)
    found = kept.all(groups, lambda some: overlap(some, rows, cache=cache, progress=False))
    frame = found.frame
    frame["cell"] = [f"{v:.2f} [{low:.2f}, {high:.2f}]" for v, low, high in frame[["value", "low", "high"]].to_numpy()]
    table = frame.pivot(index="explainer", columns="k", values="cell").loc[found.explainers]
    print(table.rename(columns=int).to_string())
    return kept.missing


def chosen_layer(subject: Subject, task: Task, count: int, folder: Path) -> int:
    """The layer chosen on texts of another split, once."""
    stored = folder / "layer.txt"
    if not stored.exists():
        # The training part of SST-2 is mostly phrases of a few words, in which there is little to choose.
        texts, labels = task.rows(task.choosing, count, shortest=SHORTEST, tokenizer=subject.tokenizer)
        layer = best_layer(Explainer(subject, "decoded-gradcam"), texts, labels, progress=False)
        stored.write_text(f"{layer}\n", encoding="utf-8")
    return int(stored.read_text(encoding="utf-8"))


def side_by_side(frame: pandas.DataFrame, value: str, first: str | None) -> pandas.DataFrame:
    """Measures side by side with their intervals, sorted by the first one, the largest on top."""
    measure = "game" if "game" in frame else "measure"
    cells = [f"{v:.3f} [{low:.3f}, {high:.3f}]" for v, low, high in frame[[value, "low", "high"]].to_numpy()]
    table = frame.assign(cell=cells).pivot(index="explainer", columns=measure, values="cell")
    names = frame["explainer"].unique()
    if first is not None:
        names = (
            frame[frame[measure] == first].sort_values(value, ascending=False, kind="stable")["explainer"].to_numpy()
        )
    return table.loc[names, frame[measure].unique()]


def print_margins(found: Results, ours: str, measures: Sequence[str] | None = None) -> None:
    """How much better one explainer is than every other."""
    others = [name for name in found.explainers if name != ours]
    if ours in found.explainers and others:
        frame = pandas.concat([found.paired(ours, other) for other in others]).drop(columns="first")
        shown = frame if measures is None else frame[frame[found.sheet.measure].isin(measures)]
        print(f"margins of {ours} with paired 95 % intervals, above 0 where it is better")
        print(shown.round(3).to_string(index=False))


REPORTS = {
    "games": report_games,
    "faithfulness": report_faithfulness,
    "corruption": report_corruption,
    "overlap": report_overlap,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nbsal.evaluation.report", description=__doc__)
    parser.add_argument("what", choices=REPORTS)
    parser.add_argument("--task", choices=TASKS, default="reviews")
    parser.add_argument("--texts", type=int, help="evaluate on a sample of that many texts")
    parser.add_argument("--choosing", type=int, default=200, help="texts of the other split that choose the layer")
    parser.add_argument("--keep", type=Path, default=Path("nbsal-report"), help="the folder of what is done")
    parser.add_argument("--baselines", nargs="*", choices=plain_names(), default=plain_names(), metavar="NAME")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no group after that time")
    options = parser.parse_args()
    missing = REPORTS[options.what](TASKS[options.task], options)
    if missing:
        raise SystemExit(f"Not yet there: {', '.join(missing)}. Run the same command again to go on.")


if __name__ == "__main__":
    main()
