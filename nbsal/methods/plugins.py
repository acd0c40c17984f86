"""Methods of other packages, which declare them as entry points of the group `nbsal.methods`.

[project.entry-points."nbsal.methods"]
length-of-token = "their_package:LengthOfToken"
"""

from functools import cache
from importlib.metadata import EntryPoint

from nbsal.methods.base import REGISTER, Method
from nbsal.methods.cost import Cost
from nbsal.support import entry_points
from nbsal.support.errors import InputError

GROUP = "nbsal.methods"
# What `register` gives a method class: lists of methods show all of it.
FIELDS = {"name": str, "family": str, "needs": frozenset, "paper": str, "cost": Cost, "promise": frozenset}


@cache
def offered() -> dict[str, EntryPoint]:
    """The entry points of installed packages by the name of the method; names that are taken are left out."""
    return entry_points.scan(GROUP, "method", is_own)


def origin(name: str) -> str | None:
    """The package that a method is from, with its version; None for nbsal's own."""
    return entry_points.source(offered()[name]) if name in offered() else None


def load(name: str) -> type[Method]:
    """Import the method of that name and check that it is one."""
    entry = offered()[name]
    method, package = entry_points.load(entry, "method"), entry_points.source(entry)
    fits = all(isinstance(getattr(method, field, None), kind) for field, kind in FIELDS.items())
    if not (fits and isinstance(method, type) and issubclass(method, Method)):
        message = f"{entry.value} of {package} is no method: a class with nbsal.methods.base.register around it."
        raise InputError(message, argument="method", value=name)
    if method.name != name:
        message = f"{package} offers {name!r}, but calls the method {method.name!r}. Both must be the same."
        raise InputError(message, argument="method", value=name)
    return method


def is_own(name: str) -> bool:
    """Whether a method of that name is nbsal's own; that of another package may be imported already."""
    return name in REGISTER and REGISTER[name].__module__.startswith("nbsal.")
