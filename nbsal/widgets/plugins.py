"""Views of other packages, which declare them as entry points of the group `nbsal.views`.

[project.entry-points."nbsal.views"]
Bars = "their_package:Bars"
"""

import sys
from functools import cache
from importlib.metadata import EntryPoint

from nbsal import entry_points
from nbsal.errors import InputError
from nbsal.widgets.base import View

GROUP = "nbsal.views"


@cache
def offered() -> dict[str, EntryPoint]:
    """The entry points of installed packages by the name of the view; names that are taken are left out."""
    return entry_points.scan(GROUP, "view", lambda name: name in vars(sys.modules["nbsal.widgets"]))


def load(name: str) -> type[View]:
    """Import the view of that name and check that it is one; an AttributeError if no package offers it."""
    if name.startswith("_") or name not in offered():
        raise AttributeError(f"module 'nbsal.widgets' has no attribute {name!r}")
    entry = offered()[name]
    view = entry_points.load(entry, "view")
    if not (isinstance(view, type) and issubclass(view, View)):
        message = f"{entry.value} of {entry_points.source(entry)} is no view: a subclass of nbsal.widgets.View."
        raise InputError(message, argument="view", value=name)
    return view
