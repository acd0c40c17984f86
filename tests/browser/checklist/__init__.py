"""Checks of how the views look and behave in JupyterLab; `python -m tests.browser.checklist` runs them.

A check is a function of a `Session`. It returns what it measured, or raises an AssertionError that says it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[[Any], str]


@dataclass(frozen=True)
class Check:
    """A check: its number, what it asks in a few words, and its function.

    One that leaves views without Python is `last`: it runs after the others.
    """

    number: int
    words: str
    function: Function
    last: bool = False


CHECKS: dict[int, Check] = {}


def check(number: int, words: str, last: bool = False) -> Callable[[Function], Function]:
    """Register a function as the check of that number."""

    def register(function: Function) -> Function:
        CHECKS[number] = Check(number, words, function, last)
        return function

    return register


def in_words(problems: dict[str, Any] | list[Any]) -> str:
    """What was measured, cut where it is long."""
    entries = problems.items() if isinstance(problems, dict) else enumerate(problems)
    text = "; ".join(f"{name}: {value}" if isinstance(problems, dict) else str(value) for name, value in entries)
    return text if len(text) < 600 else f"{text[:600]}…"
