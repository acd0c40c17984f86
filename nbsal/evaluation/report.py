"""Prints how explanations of the embedded models fare on benchmark tables: `python -m nbsal.evaluation.report games`.

Rows come from NBSAL_DATA or the hub. What is done is kept in a folder, explainers by groups; a run that was stopped,
by hand or by `--minutes`, goes on from there, and the cost of every group is printed.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from nbsal import data
from nbsal.encoding import Text
from nbsal.evaluation.curves import at_layers, best_layer, games
from nbsal.evaluation.memory import Memory
from nbsal.evaluation.results import Results, joined
from nbsal.explainer import Explainer
from nbsal.methods import catalogue
from nbsal.subject import Subject, load

TENTHS = tuple(step / 10 for step in range(11))
SHORTEST = 14
RANDOM = 20
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
        path.mkdir(parents=True, exist_ok=True)

    def each(self, groups: Groups, evaluate: Callable[[Members], Results]) -> Iterator[Results]:
        """Results of every group: those of earlier runs, and new ones until the time is up."""
        for name, explainers in groups.items():
            stored = self.path / f"{name}.npz"
            if not stored.exists():
                if time.monotonic() > self.end:
                    raise SystemExit(f"Time is up before {name}: run the same command again to go on.")
                start, cpu = time.monotonic(), time.process_time()
                evaluate(explainers).save(stored)
                cost = f"{time.monotonic() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU"
                stored.with_suffix(".txt").write_text(cost + "\n", encoding="utf-8")
            print(f"  {name}: {stored.with_suffix('.txt').read_text(encoding='utf-8').strip()}", flush=True)
            yield Results.load(stored)


def plain_names() -> list[str]:
    """The catalogue's methods that are no variants and need no layer to be chosen."""
    families = catalogue.table()["family"]
    return [name for name in families.index[families != "decoding"] if "@" not in name and name != "random"]


def groups(subject: Subject, layer: int, baselines: Sequence[str]) -> Groups:
    """Chance, every layer of the decoded methods, the chosen layer undecoded, and the baselines one by one."""
    found: Groups = {f"random-{i}": {"random": chance(subject, range(i, i + 5))} for i in range(0, RANDOM, 5)}
    for method, name in {"decoded-gradcam": "decoded Grad-CAM", "decoded-simple": "decoded Simple"}.items():
        layers = at_layers(Explainer(subject, method))
        found[method] = {f"{name} l{at}": one for at, one in layers.items()}
    for method, name in {"gradcam": "Grad-CAM", "simple": "Simple"}.items():
        found[f"{method}-{layer}"] = {f"{name} l{layer}": Explainer(subject, method, layer=layer)}
    shown = {"gradcam": "Grad-CAM l0", "simple": "Simple l0", "gradxact": "gradxact l0"}
    return found | {name: {shown.get(name, name): Explainer(subject, name)} for name in baselines}


def chance(subject: Subject, seeds: Iterable[int]) -> list[Explainer]:
    """Explainers that score by chance."""
    return [Explainer(subject, "random", seed=seed) for seed in seeds]


def report_games(task: Task, options: argparse.Namespace) -> None:
    """Both games for every layer of the decoded methods and every baseline, and the margins of the chosen layer."""
    subject, memory = load(task.name), Memory()
    rows, labels = task.rows(task.split, options.texts)
    kept = Folder(options.keep / f"games-{task.table}-{len(rows)}", options.minutes)
    layer = chosen_layer(subject, task, options.choosing, kept.path)
    print(f"{task.name} on {task.table} ({task.split}), {len(rows)} texts, 11 points, gold labels")
    chosen_on = f"{options.choosing} texts of {task.choosing}, {SHORTEST} tokens or more"
    print(f"layer {layer}, chosen by decoded Grad-CAM on {chosen_on}", flush=True)

    def play(explainers: Members) -> Results:
        return games(explainers, rows, labels, fractions=TENTHS, random=0, memory=memory, progress=False)

    found = joined(list(kept.each(groups(subject, layer, options.baselines), play)))
    print(area_table(found).to_string())
    print(found.spread().round(3).to_string(index=False))
    ours = f"decoded Grad-CAM l{layer}"
    margins = [found.paired(ours, other) for other in found.explainers if other != ours]
    print("margins of the chosen layer with paired 95 % intervals, above 0 where it is better")
    print(pandas.concat(margins).drop(columns="first").round(3).to_string(index=False))


def chosen_layer(subject: Subject, task: Task, count: int, folder: Path) -> int:
    """The layer chosen on texts of another split, once."""
    stored = folder / "layer.txt"
    if not stored.exists():
        # The training part of SST-2 is mostly phrases of a few words, in which there is little to choose.
        texts, labels = task.rows(task.choosing, count, shortest=SHORTEST, tokenizer=subject.tokenizer)
        layer = best_layer(Explainer(subject, "decoded-gradcam"), texts, labels, progress=False)
        stored.write_text(f"{layer}\n", encoding="utf-8")
    return int(stored.read_text(encoding="utf-8"))


def area_table(found: Results) -> pandas.DataFrame:
    """Areas with their intervals, the games side by side, the best revealing first."""
    area = found.auc()
    area["cell"] = [f"{a:.3f} [{low:.3f}, {high:.3f}]" for a, low, high in area[["auc", "low", "high"]].to_numpy()]
    sides = area.pivot(index="explainer", columns="game", values="cell")
    order = area[area["game"] == "revealing"].set_index("explainer")["auc"].sort_values(ascending=False).index
    return sides.loc[order, ["revealing", "hiding"]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nbsal.evaluation.report", description=__doc__)
    parser.add_argument("what", choices=["games"])
    parser.add_argument("--task", choices=TASKS, default="reviews")
    parser.add_argument("--texts", type=int, help="evaluate on a sample of that many texts")
    parser.add_argument("--choosing", type=int, default=200, help="texts of the other split that choose the layer")
    parser.add_argument("--keep", type=Path, default=Path("nbsal-report"), help="the folder of what is done")
    parser.add_argument("--baselines", nargs="*", choices=plain_names(), default=plain_names(), metavar="NAME")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no group after that time")
    options = parser.parse_args()
    report_games(TASKS[options.task], options)


if __name__ == "__main__":
    main()
