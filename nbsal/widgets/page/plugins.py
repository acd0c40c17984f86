"""Views of other packages, which declare them as entry points of the group `nbsal.views`.

[project.entry-points."nbsal.views"]
Bars = "their_package:Bars"
"""

import sys
import warnings
from functools import cache
from importlib.metadata import EntryPoint

from nbsal.support import entry_points
from nbsal.support.errors import BrokenView, InputError
from nbsal.widgets.base import View

GROUP = "nbsal.views"


@cache
def offered() -> dict[str, EntryPoint]:
    """The entry points of installed packages by the name of the view; names that are taken are left out."""
    return entry_points.scan(GROUP, "view", lambda name: name in vars(sys.modules["nbsal.widgets"]))


def load(name: str) -> type[View]:
    """Import the view of that name and check that it is one; an AttributeError if no package offers one that works."""
    if name.startswith("_") or name not in offered():
        raise AttributeError(f"module 'nbsal.widgets' has no attribute {name!r}")
    entry = offered()[name]
    try:
        view = entry_points.load(entry, "view")
        if not (isinstance(view, type) and issubclass(view, View)):
            message = f"{entry.value} of {entry_points.source(entry)} is no view: a subclass of nbsal.widgets.View."
            raise InputError(message, argument="view", value=name)
        return view
    except InputError as error:
        _warn_once(str(error))  # `from nbsal.widgets import ...` does not show why an attribute is missing
        raise BrokenView(str(error), argument="view", value=name) from error


@cache
def _warn_once(problem: str) -> None:
    """Warn of a view that cannot be used, once a process: tools that list the module ask for each."""
    warnings.warn(problem, stacklevel=4)
