"""The table of benchmark results, one row per measurement with its goal."""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

ROUNDS = 10  # of a product whose rate is measured
Values = float | Sequence[float]  # one measurement, or one per round


@dataclass(frozen=True)
class Row:
    """One task: our cost, the cost of a peer, the lower bound by arithmetic; the peer's cost over ours; the goal."""

    work: str
    ours: str = ""
    peer: str = ""
    floor: str = ""
    ratio: str = ""
    goal: str = ""
    met: str = ""


def spread(values: Values, digits: int = 2) -> str:
    """The median, and the range if there are several rounds."""
    many = [values] if isinstance(values, float | int) else values
    middle = f"{statistics.median(many):,.{digits}f}"
    return f"{middle} ({min(many):,.{digits}f} to {max(many):,.{digits}f})" if len(many) > 1 else middle


def at_least(goal: float, values: Values, unit: str = "") -> dict[str, str]:
    """A goal that the median must reach."""
    return {"goal": f">= {goal:g}{unit}", "met": "yes" if _median(values) >= goal else "no"}


def at_most(goal: float, values: Values, unit: str = "") -> dict[str, str]:
    """A goal that the median must not exceed."""
    return {"goal": f"<= {goal:g}{unit}", "met": "yes" if _median(values) <= goal else "no"}


def _median(values: Values) -> float:
    return values if isinstance(values, float | int) else statistics.median(values)


def cost(work: str, values: Values, unit: str, most: float | None = None, digits: int = 2, **cells: str) -> Row:
    """The row of a cost, which should be at most so high."""
    goal = {} if most is None else at_most(most, values, f" {unit}")
    return Row(work, f"{spread(values, digits)} {unit}", **goal, **cells)


def missing(work: str, reason: str) -> Row:
    """A row for a task that could not be run."""
    return Row(work, ours=f"not run: {reason}")


def markdown(rows: Iterable[Row]) -> str:
    """The table in Markdown."""
    names = [field.name for field in fields(Row)]
    head = f"{machine()}\n\n| {' | '.join(names)} |\n| {' | '.join('---' for _ in names)} |"
    return "\n".join([head, *map(line, rows)])


def line(row: Row) -> str:
    """A row in Markdown, with bars and line breaks replaced."""
    return f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in astuple(row))} |"


def store(path: Path, name: str, rows: Iterable[Row]) -> None:
    """Keep some rows with the machine that they were measured on, in place of those of the same name."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    stored[name] = {"machine": machine(), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(stored, indent=1) + "\n")


def machine() -> str:
    """The processor, and the rate of PyTorch's float32 products, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    x, weight = torch.rand(256, 768), torch.rand(3072, 768)
    functional.linear(x, weight)
    start = time.process_time()
    for _ in range(ROUNDS):
        functional.linear(x, weight)
    rate = ROUNDS * 2 * x.numel() * len(weight) / (time.process_time() - start) / 1e9
    torch.set_num_threads(threads)
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.exists() else ""
    names = [part.split(":", 1)[1].strip() for part in text.splitlines() if part.startswith("model name")]
    processor = names[0] if names else platform.processor()
    return f"{processor}: PyTorch's products {rate:.0f} GFLOP/s, on one thread"


def parser(doc: str | None, **more: dict[str, Any]) -> argparse.ArgumentParser:
    """A parser with the options of all benchmarks, and more of one."""
    arguments = argparse.ArgumentParser(description=doc)
    arguments.add_argument("--rounds", type=int, default=3, help="number of rounds; medians are reported")
    arguments.add_argument("--quick", action="store_true", help="small sizes, to check that it runs")
    for name, settings in more.items():
        arguments.add_argument(f"--{name}", **settings)
    return arguments


def main(results: Callable[..., list[Row]], doc: str | None, **more: dict[str, Any]) -> None:
    """Run a benchmark with the options of the command line, and print its table."""
    print(markdown(results(**vars(parser(doc, **more).parse_args()))))
