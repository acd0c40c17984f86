"""The table of benchmark results, one row per measurement with its goal."""

import argparse
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields

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
    head = f"| {' | '.join(names)} |\n| {' | '.join('---' for _ in names)} |"
    return "\n".join([head, *map(line, rows)])


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
