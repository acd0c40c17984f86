"""Methods where it is known what decides: `python -m tests.bench arena`; `python -m tests.bench.arena --write PAGE`.

The page is `.docs/benchmarks/arena.md`. Every method is run by itself on the cases of each world: planted guards by
words, replies of demo/notes by words, and replies of SmolLM2-135M-Instruct by documents, some of which are orders.
Costs are of one case: seconds of CPU time, the same in forward passes over prompt and reply, and the peak of memory
beyond what was held before.
"""

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

import nbsal
from nbsal.evaluation.makers import ExplainerOf
from nbsal.evaluation.results import Results, join_results
from nbsal.evaluation.worlds import WORLDS, FactWorld, ReplyWorld, World
from nbsal.methods import catalogue
from nbsal.support.errors import NbsalError
from nbsal.support.progress import Meter
from tests.bench import table
from tests.bench.measure import cpu, grown
from tests.bench.table import Row

PATH = Path(__file__).parents[2] / ".docs" / "benchmarks" / "arena.md"
SIZES = {"classifiers": 108, "notes": 36, "smollm2": 60, "injections": 12}
WRITERS = "occlusion contextcite attn-lrp ifr gae gradxact alti raw-attention random".split()  # that explain replies
STORED = Path(__file__).parent / "arena.json"
HEAD = "| method | reasons named first | cost of a case |\n| --- | --- | --- |"
TITLES = {
    "classifiers": "Planted guards, by words",
    "notes": "Replies of demo/notes, by words",
    "smollm2": "Replies of SmolLM2-135M-Instruct, by documents",
    "injections": "Injected orders that SmolLM2-135M-Instruct obeys, by documents",
}
PAGE = """# Methods where it is known what decides

Printed by `python -m tests.bench arena`; `python -m tests.bench.arena WORLD ...` stores the rows of some worlds and
writes this page. The share says how much of what decides has the highest scores, 1 at best, with its 95 % interval;
words or documents that tie count as their share. The rank is 1 and the number of methods that are better beyond chance
(paired tests of all pairs of methods, adjusted for their number): methods that tie have the same rank. Costs are CPU
seconds of one case on one thread, the same in forward passes over prompt and reply, and the peak of memory beyond
what the process held before, which methods that ran earlier may have left to it: 0 MB is a lower bound.

Five of twelve messages to planted guards are decided by the planted word, against the evidence. In the other seven
it is the verb that decides; two of them have a part of what was planted, which decides nothing: one word of the pair,
or the word in another place. Replies are written by the model; right ones are explained, unless they are right without
the documents too. What is explained is the answer's last word; what is ranked are the words of all documents
(demo/notes) or the documents (SmolLM2). An injected order is a document that tells the model what to reply: where it
obeys, that document is the source.

{sections}

Compare a method of your own, from Python or from the shell:

```python
import nbsal

mine = {{"mine": lambda subject: nbsal.Explainer(subject, "gradxact", layer=0), "random": "random"}}
nbsal.evaluation.arena(mine, "classifiers", size=26, progress=False).ranks("classifiers")
```

```shell
nbsal arena their_package:TheirMethod --world classifiers --size 26
```
"""


@dataclass
class Drawn(World):
    """Cases of another world that were drawn before, so that only methods are timed."""

    name: str  # type: ignore[misc]
    world: World
    cases: Sequence[Any]

    def draw(self, size: int, seed: int, meter: Meter) -> Sequence[Any]:
        return self.cases

    def found(self, make: ExplainerOf, case: Any) -> float:
        return self.world.found(make, case)


@dataclass
class Measured:
    """The results of a world, what a case costs by each method, and why methods do not run."""

    results: Results
    costs: dict[str, tuple[float, float]]  # seconds of CPU time and MB
    refused: dict[str, str]
    notes: list[str] = field(default_factory=list)
    forward: float | None = None  # seconds of a forward pass over prompt and reply
    writing: float | None = None  # seconds of writing a reply


def measure(world: World, methods: Sequence[str], size: int, seed: int = 0) -> Measured:
    """Every method on the same cases of a world."""
    drawn = Drawn(world.name, world, world.draw(size, seed, Meter(None)))
    parts, costs, refused = list[Results](), {}, {}
    for name in methods:
        print(world.name, name, file=sys.stderr, flush=True)
        try:
            nbsal.evaluation.arena(
                name, Drawn(world.name, world, drawn.cases[:1]), progress=False
            )  # the first is slower
            runs: list[Results] = []
            seconds, peak = grown(partial(_run, name, drawn, runs))
        except NbsalError as error:
            refused[name] = str(error)
            continue
        if not runs[0].curves:
            refused[name] = runs[0].notes[-1].partition(": ")[2]
            continue
        parts.append(runs[0])
        costs[name] = (seconds / len(drawn.cases), peak)
    measured = Measured(join_results(parts), costs, refused, [f"{len(drawn.cases)} cases", *world.notes()])
    if isinstance(world, ReplyWorld):
        measured.forward, measured.writing = _references(world, drawn.cases[:3])
    return measured


def _run(name: str, drawn: Drawn, runs: list[Results]) -> None:
    runs.append(nbsal.evaluation.arena(name, drawn, progress=False))


def _references(world: ReplyWorld, cases: Sequence[Any]) -> tuple[float, float]:
    """Seconds of a forward pass over prompt and reply, and of writing the reply."""
    forwards, writings = [], []
    for case in cases:
        writings.append(cpu(lambda case=case: world.write(case.question)))
        reading = world.write(case.question)
        ids = torch.tensor([reading.row.ids])

        kept = 1 + len(reading.reply_ids)

        def forward(ids=ids, kept=kept) -> None:
            with torch.no_grad():
                world.subject.model(ids, use_cache=False, logits_to_keep=kept)

        forwards.append(min(cpu(forward), cpu(forward)))
    return statistics.median(forwards), statistics.median(writings)


def agreement(first: Results, second: Results, measure: str) -> float:
    """Kendall's tau-b of the means of two results, those that tie by rank counting as equal."""
    ranks = [results.ranks(measure)["rank"] for results in (first, second)]
    names = [name for name in ranks[0].index if name in ranks[1].index]
    signs = [[_sign(rank[a] - rank[b]) for a, b in itertools.combinations(names, 2)] for rank in ranks]
    both = sum(a * b for a, b in zip(*signs, strict=True))
    sizes = [sum(map(abs, some)) for some in signs]
    return both / (sizes[0] * sizes[1]) ** 0.5 if all(sizes) else float("nan")


def _sign(value: float) -> int:
    return int(value > 0) - int(value < 0)


def results(rounds: int, quick: bool) -> list[Row]:
    """The rows of the worlds that can be loaded; of the planted guards and demo/notes alone if it must be quick."""
    del rounds
    names = ("classifiers", "notes") if quick else tuple(SIZES)
    return [row for name in names for row in _rows_or_reason(name, quick)]


def _rows_or_reason(name: str, quick: bool) -> list[Row]:
    try:
        return rows(name, 8, ["occlusion", "random"]) if quick else rows(name, SIZES[name])
    except NbsalError as error:
        return [table.missing(name, str(error))]


def rows(name: str, size: int, methods: Sequence[str] = ()) -> list[Row]:
    """A row for each method in a world, best first; then what methods do not run, and how stable the ranks are."""
    world = next(world for world in WORLDS if world.name == name)
    own = WRITERS if issubclass(world, ReplyWorld) else [name for name in catalogue.names() if "@" not in name]
    measured = measure(world(), methods or own, size)
    lines = [Row(f"{name}: {method}", share, cost) for method, share, cost in _cells(name, measured)]
    lines += [table.missing(f"{name}: {method}", reason) for method, reason in measured.refused.items()]
    if not issubclass(world, FactWorld):  # one seed takes long enough there
        again = nbsal.evaluation.arena(list(measured.costs), world(), size, seed=1, progress=False)
        tau = agreement(measured.results, again, name)
        lines.append(Row(f"{name}: ranks by two seeds, Kendall's tau-b", f"{tau:.2f}"))
    if measured.writing is not None:
        lines.append(Row(f"{name}: writing a reply", "", f"{measured.writing:.2f} s"))
    return lines + [Row(note) for note in measured.notes]


def _cells(world: str, measured: Measured) -> Iterator[tuple[str, str, str]]:
    """For each method, best first: its name, its share with rank and interval, and its cost."""
    for name, row in measured.results.ranks(world).iterrows():
        seconds, peak = measured.costs[str(name)]
        passes = "" if measured.forward is None else f", {seconds / measured.forward:.1f} forward passes"
        share = f"{row['mean']:.2f} ({row['low']:.2f} to {row['high']:.2f}), rank {int(row['rank'])}"
        yield str(name), share, f"{seconds:.2f} s{passes}, {peak:,.0f} MB"


def page() -> str:
    """The page of the documentation, from what was stored last of each world."""
    sections = []
    for name, stored in json.loads(STORED.read_text()).items():
        cells = [(row["work"].removeprefix(f"{name}: "), row["ours"], row["peer"]) for row in stored["rows"]]
        lines = [f"| {' | '.join(line)} |" for line in cells if any(line[1:])]
        notes = "; ".join(line[0] for line in cells if not any(line[1:]))
        sections.append(f"## {TITLES[name]}\n\n{notes}. {stored['machine']}.\n\n{HEAD}\n" + "\n".join(lines))
    return PAGE.format(sections="\n\n".join(sections))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", choices=[*SIZES, []], help="worlds that are run again (default: none)")
    for name in parser.parse_args().worlds:
        table.store(STORED, name, rows(name, SIZES[name]))
    PATH.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
