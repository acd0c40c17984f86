"""The table of benchmark results, one row per measurement with its goal."""

import argparse
import platform
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import torch
from torch.nn import functional

from nbsal.model import products

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


def missing(work: str, reason: str) -> Row:
    """A row for a task that could not be run."""
    return Row(work, ours=f"not run: {reason}")


def markdown(rows: Iterable[Row]) -> str:
    """The table in Markdown."""
    names = [field.name for field in fields(Row)]
    head = f"{machine()}\n\n| {' | '.join(names)} |\n| {' | '.join('---' for _ in names)} |"
    return "\n".join([head, *map(line, rows)])


def machine() -> str:
    """The processor, and the rates of PyTorch's own float32 products and of oneDNN's, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    x, weight = torch.rand(256, 768), torch.rand(3072, 768)
    rates = []
    for multiply in (functional.linear, products.linear):
        multiply(x, weight)
        start = time.process_time()
        for _ in range(ROUNDS):
            multiply(x, weight)
        rates.append(ROUNDS * 2 * x.numel() * len(weight) / (time.process_time() - start) / 1e9)
    torch.set_num_threads(threads)
    return f"{_processor()}: PyTorch's own products {rates[0]:.0f} GFLOP/s, oneDNN's {rates[1]:.0f}, on one thread"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.exists() else ""
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def line(row: Row) -> str:
    """A row in Markdown, with bars and line breaks replaced."""
    return f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in astuple(row))} |"


def parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser with the options of all benchmarks."""
    arguments = argparse.ArgumentParser(prog=f"python -m tests.bench{name}", description=doc)
    arguments.add_argument("--rounds", type=int, default=3, help="number of rounds; medians are reported")
    arguments.add_argument("--quick", action="store_true", help="small sizes, to check that it runs")
    return arguments


def _median(values: Values) -> float:
    return values if isinstance(values, float | int) else statistics.median(values)
