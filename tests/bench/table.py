"""What a benchmark says: rows of one table, each with the goal that was set for it."""

import argparse
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields

Found = float | Sequence[float]


@dataclass(frozen=True)
class Row:
    """One work: what it costs us, a peer and the arithmetic alone; the peer's cost over ours; the goal."""

    work: str
    ours: str = ""
    peer: str = ""
    floor: str = ""
    ratio: str = ""
    goal: str = ""
    met: str = ""


def spread(found: Found, digits: int = 2) -> str:
    """The median, with the range where there were several rounds."""
    many = [found] if isinstance(found, float | int) else found
    middle = f"{statistics.median(many):,.{digits}f}"
    return f"{middle} ({min(many):,.{digits}f} to {max(many):,.{digits}f})" if len(many) > 1 else middle


def at_least(goal: float, found: Found, unit: str = "") -> dict[str, str]:
    """A goal from which on up the median meets it."""
    return {"goal": f">= {goal:g}{unit}", "met": "yes" if _median(found) >= goal else "no"}


def at_most(goal: float, found: Found, unit: str = "") -> dict[str, str]:
    """A goal that the median must not exceed."""
    return {"goal": f"<= {goal:g}{unit}", "met": "yes" if _median(found) <= goal else "no"}


def missing(work: str, reason: str) -> Row:
    """A row of what could not be run."""
    return Row(work, ours=f"not run: {reason}")


def markdown(rows: Iterable[Row]) -> str:
    """The table."""
    names = [field.name for field in fields(Row)]
    head = f"| {' | '.join(names)} |\n| {' | '.join('---' for _ in names)} |"
    return "\n".join([head, *map(line, rows)])


def line(row: Row) -> str:
    """A row of the table, its bars and line breaks made harmless."""
    return f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in astuple(row))} |"


def parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    made = argparse.ArgumentParser(prog=f"python -m tests.bench{name}", description=doc)
    made.add_argument("--rounds", type=int, default=3, help="rounds, of which medians are told")
    made.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    return made


def _median(found: Found) -> float:
    return found if isinstance(found, float | int) else statistics.median(found)
