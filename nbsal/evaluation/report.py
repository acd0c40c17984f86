"""Evaluate explanations of the embedded models on benchmarks: `python -m nbsal.evaluation.report games`.

The other reports are `faithfulness`, `corruption` (of the head mask of Mask-LRP) and `overlap`. Data comes from the
folder NBSAL_DATA or from the hub. Explainers are evaluated in groups, and the results of each group are saved in a
folder: run the same command again to resume an interrupted run, or one that reached its limit of `--minutes`. The time
that each group took is printed.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from nbsal import samples
from nbsal.evaluation import data
from nbsal.evaluation._faithfulness import faithfulness
from nbsal.evaluation._games import at_layers, best_layer, games
from nbsal.evaluation._overlap import overlap
from nbsal.evaluation.cache import Cache
from nbsal.evaluation.results import Results, join_results
from nbsal.explain.explainer import Explainer
from nbsal.methods import catalogue
from nbsal.model.head_mask import HeadMask
from nbsal.model.loading.load import load
from nbsal.model.subject import Subject
from nbsal.support.validation import Text, plural

TENTHS = tuple(step / 10 for step in range(11))
SHORTEST = 14
RANDOM = 20
VARIANTS = ("mask-lrp@published", "mask-lrp@equations")
NamedExplainers = dict[str, Explainer | list[Explainer]]
Groups = dict[str, NamedExplainers]


@dataclass(frozen=True)
class Task:
    """An embedded model, the split it is evaluated on, and the split on which a layer is chosen."""

    name: str
    table: str
    split: str
    layer_split: str

    def rows(self, split: str, most: int | None, **filters: Any) -> tuple[list[Text], list[int]]:
        """Texts and labels of a split; a sample of `most` rows if there are more."""
        frame = data.load(self.table, split, **filters)
        if most and most < len(frame):
            frame = frame.sample(most, random_state=0)
        return data.texts(frame), frame["label"].tolist()


TASKS = {
    "reviews": Task("demo/reviews", "sst2", "validation", "train"),
    "news": Task("demo/news", "ag_news", "test", "train"),
}


class ResultFolder:
    """Saved results of one evaluation by group; each group is saved as soon as it is finished.

    `missing` has the groups that were not started because the time limit was reached.
    """

    def __init__(self, path: Path, minutes: float) -> None:
        self.path = path
        self.end = time.monotonic() + 60 * minutes
        self.missing: list[str] = []
        path.mkdir(parents=True, exist_ok=True)

    def evaluate(self, groups: Groups, evaluate: Callable[[NamedExplainers], Results]) -> Results:
        """Join the results of all groups: the saved ones, and new ones until the time limit is reached."""
        results = []
        for name, explainers in groups.items():
            stored = self.path / f"{name}.npz"
            if not stored.exists() and time.monotonic() > self.end:
                self.missing.append(name)
                continue
            if not stored.exists():
                start, cpu = time.monotonic(), time.process_time()
                evaluate(explainers).save(stored)
                cost = f"{time.monotonic() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU time"
                stored.with_suffix(".txt").write_text(cost + "\n", encoding="utf-8")
            print(f"  {name}: {stored.with_suffix('.txt').read_text(encoding='utf-8').strip()}", flush=True)
            results.append(Results.load(stored))
        if not results:
            raise SystemExit("The time limit was reached before the first group. Increase --minutes.")
        return join_results(results)


def baseline_names() -> list[str]:
    """The catalogue's methods, without variants and without decoded methods, which need a layer to be chosen."""
    families = catalogue.table()["family"]
    return [name for name in families.index[families != "decoding"] if "@" not in name and name != "random"]


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
    return groups | undecoded_groups(subject, layer) | single_method_groups(subject, baselines)


def undecoded_groups(subject: Subject, layer: int) -> Groups:
    """Grad-CAM and Simple at the chosen layer without decoding: each position scores its own token."""
    names = {"gradcam": "Grad-CAM", "simple": "Simple"}
    return {f"{m}-{layer}": {f"{name} l{layer}": Explainer(subject, m, layer=layer)} for m, name in names.items()}


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


def report_games(task: Task, options: argparse.Namespace) -> list[str]:
    """Both games for the decoded methods at every layer and every baseline, and the margins of the chosen layer."""
    subject, cache = load(task.name), Cache()
    rows, labels = task.rows(task.split, options.texts)
    folder = ResultFolder(options.folder / f"games-{task.table}-{len(rows)}", options.minutes)
    layer = select_layer(subject, task, options.layer_texts, folder.path)
    print(f"{task.name} on {task.table} ({task.split}), {len(rows)} texts, 11 fractions, gold labels")
    chosen_on = f"{options.layer_texts} texts of {task.layer_split} with at least {SHORTEST} tokens"
    print(f"layer {layer}, chosen with decoded Grad-CAM on {chosen_on}", flush=True)

    def play(explainers: NamedExplainers) -> Results:
        return games(explainers, rows, labels, fractions=TENTHS, random=0, cache=cache, progress=False)

    results = folder.evaluate(game_groups(subject, layer, options.baselines), play)
    print(side_by_side(results.auc(), "auc", "revealing").to_string())
    print(results.spread().round(3).to_string(index=False))
    print_margins(results, f"decoded Grad-CAM l{layer}")
    return folder.missing


def report_faithfulness(task: Task, options: argparse.Namespace) -> list[str]:
    """Faithfulness of Mask-LRP and its variants, its baselines, five random head masks and random orders."""
    subject, cache = load(task.name), Cache()
    rows, _ = task.rows(task.split, options.texts, shortest=SHORTEST, tokenizer=subject.tokenizer)
    folder = ResultFolder(options.folder / f"faithfulness-{task.table}-{len(rows)}", options.minutes)
    _print_long_texts(task, len(rows), ", predicted class")
    groups = random_masks(subject) | decoded_group(subject) | undecoded_groups(subject, samples.DEFAULT_LAYER)
    groups |= single_method_groups(subject, [*options.baselines, *VARIANTS])
    results = folder.evaluate(groups, lambda group: faithfulness(group, rows, cache=cache, progress=False))
    print(side_by_side(results.mean(), "mean", "aopc").to_string())
    print(results.spread().round(4).to_string(index=False))
    print_margins(results, "mask-lrp", measures=("aopc", "log-odds"))
    return folder.missing


def report_corruption(task: Task, options: argparse.Namespace) -> list[str]:
    """Faithfulness of Mask-LRP as more and more of the excluded heads are added to its mask."""
    subject, cache = load(task.name), Cache()
    rows, _ = task.rows(task.split, options.texts, shortest=SHORTEST, tokenizer=subject.tokenizer)
    folder = ResultFolder(options.folder / f"corruption-{task.table}-{len(rows)}", options.minutes)
    _print_long_texts(task, len(rows))
    groups = corrupted_masks(subject)
    results = folder.evaluate(groups, lambda group: faithfulness(group, rows, cache=cache, progress=False))
    print(side_by_side(results.mean(), "mean", None).to_string())
    print(results.spread().query("measure in ('aopc', 'log-odds')").round(4).to_string(index=False))
    return folder.missing


def report_overlap(task: Task, options: argparse.Namespace) -> list[str]:
    """The share of the top 10 to 100 tokens that pairs of classes have in common."""
    subject, cache = load(task.name), Cache()
    rows, _ = task.rows(task.split, options.texts)
    folder = ResultFolder(options.folder / f"overlap-{task.table}-{len(rows)}", options.minutes)
    print(f"{task.name} on {task.table} ({task.split}), {len(rows)} texts")
    layer = samples.DEFAULT_LAYER
    groups = decoded_group(subject)
    groups |= {"decoded-simple": {f"decoded Simple l{layer}": Explainer(subject, "decoded-simple")}}
    groups |= undecoded_groups(subject, layer) | {"random": {"random": random_runs(subject, range(5))}}
    groups |= single_method_groups(subject, options.baselines)
    results = folder.evaluate(groups, lambda group: overlap(group, rows, cache=cache, progress=False))
    frame = results.frame
    frame["cell"] = [f"{v:.2f} [{low:.2f}, {high:.2f}]" for v, low, high in frame[["value", "low", "high"]].to_numpy()]
    table = frame.pivot(index="explainer", columns="k", values="cell").loc[results.explainers]
    print(table.rename(columns=int).to_string())
    return folder.missing


def decoded_group(subject: Subject) -> Groups:
    """Decoded Grad-CAM at the default layer."""
    return {"decoded": {f"decoded Grad-CAM l{samples.DEFAULT_LAYER}": Explainer(subject, "decoded-gradcam")}}


def select_layer(subject: Subject, task: Task, count: int, folder: Path) -> int:
    """The best layer on texts of the other split; computed once and saved in the folder."""
    stored = folder / "layer.txt"
    if not stored.exists():
        # The training split of SST-2 is mostly phrases of a few words, which hardly tell layers apart.
        texts, labels = task.rows(task.layer_split, count, shortest=SHORTEST, tokenizer=subject.tokenizer)
        layer = best_layer(Explainer(subject, "decoded-gradcam"), texts, labels, progress=False)
        stored.write_text(f"{layer}\n", encoding="utf-8")
    return int(stored.read_text(encoding="utf-8"))


def side_by_side(frame: pandas.DataFrame, value: str, sort_by: str | None) -> pandas.DataFrame:
    """A table with one column per measure and confidence intervals, in descending order of the measure `sort_by`."""
    measure = "game" if "game" in frame else "measure"
    cells = [f"{v:.3f} [{low:.3f}, {high:.3f}]" for v, low, high in frame[[value, "low", "high"]].to_numpy()]
    table = frame.assign(cell=cells).pivot(index="explainer", columns=measure, values="cell")
    names = frame["explainer"].unique()
    if sort_by is not None:
        part = frame[frame[measure] == sort_by].sort_values(value, ascending=False, kind="stable")
        names = part["explainer"].to_numpy()
    return table.loc[names, frame[measure].unique()]


def print_margins(results: Results, ours: str, measures: Sequence[str] | None = None) -> None:
    """Print how much better one explainer is than each of the others."""
    if ours in results.explainers and len(results.explainers) > 1:
        frame = results.paired(ours, measures=measures)
        count = plural(int(frame["comparisons"].iloc[0]), "comparison")
        print(f"margins of {ours} with 95 % confidence intervals (paired), positive where it is better")
        print(f"{count}: p_holm is adjusted for their number, p and the intervals are not")
        print(frame.drop(columns=["first", "comparisons"]).round(3).to_string(index=False))


def _print_long_texts(task: Task, count: int, suffix: str = "") -> None:
    print(f"{task.name} on {task.table} ({task.split}), {count} texts with at least {SHORTEST} tokens{suffix}")


REPORTS = {
    "games": report_games,
    "faithfulness": report_faithfulness,
    "corruption": report_corruption,
    "overlap": report_overlap,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nbsal.evaluation.report", description=__doc__)
    parser.add_argument("report", choices=REPORTS)
    parser.add_argument("--task", choices=TASKS, default="reviews")
    parser.add_argument("--texts", type=int, help="evaluate a sample of this many texts")
    parser.add_argument("--layer-texts", type=int, default=200, help="number of texts used to choose the layer")
    parser.add_argument("--folder", type=Path, default=Path("nbsal-report"), help="folder for the results")
    parser.add_argument("--baselines", nargs="*", choices=baseline_names(), default=baseline_names(), metavar="NAME")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no new group after this time")
    options = parser.parse_args()
    missing = REPORTS[options.report](TASKS[options.task], options)
    if missing:
        raise SystemExit(f"Not finished: {', '.join(missing)}. Run the same command again to resume.")


if __name__ == "__main__":
    main()
