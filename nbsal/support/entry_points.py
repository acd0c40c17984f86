"""Entry points of installed packages, through which they offer methods and views of their own.

Entry points are read at the first question for a name that nbsal lacks, never by `import nbsal`; the package behind one
is imported when what it offers is used.
"""

import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nbsal.support.errors import InputError


def scan(group: str, kind: str, is_own: Callable[[str], bool]) -> dict[str, EntryPoint]:
    """The entry points of a group by name; a name that nbsal or another package has is left out with a warning."""
    by_name: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        if is_own(entry.name) or entry.name in by_name:
            owner = source(by_name[entry.name]) if entry.name in by_name else "nbsal"
            message = f"{entry.name} is a {kind} of {owner}. {source(entry)} offers another of that name: not used."
            warnings.warn(message, stacklevel=2)
        else:
            by_name[entry.name] = entry
    return by_name


def source(entry: EntryPoint) -> str:
    """The package of an entry point, with its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module


def load(entry: EntryPoint, kind: str) -> Any:
    """What an entry point names, imported; an InputError about the argument `kind` says what went wrong."""
    try:
        return entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # code of others, which may even ask Python to exit
        problem = f"The {kind} {entry.name!r} of {source(entry)} cannot be imported ({type(error).__name__}: {error})."
        raise InputError(problem, argument=kind, value=entry.name) from error
