"""Methods of other packages, which declare them as entry points of the group `nbsal.methods`.

    [project.entry-points."nbsal.methods"]
    length-of-token = "their_package:LengthOfToken"

Names are read on the first question for a name that nbsal lacks; a package is imported when its method is created.
"""

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from nbsal.errors import InputError
from nbsal.methods.base import REGISTER, Method

GROUP = "nbsal.methods"
FIELDS = ("name", "family", "needs", "paper", "cost", "promise")  # what `register` gives a method class


@cache
def offered() -> dict[str, EntryPoint]:
    """The entry points of installed packages by the name of the method; names that are taken are left out."""
    by_name: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        if _is_own(entry.name) or entry.name in by_name:
            owner = source(by_name[entry.name]) if entry.name in by_name else "nbsal"
            message = f"{entry.name} is a method of {owner}. {source(entry)} offers another of that name: not used."
            warnings.warn(message, stacklevel=2)
        else:
            by_name[entry.name] = entry
    return by_name


def source(entry: EntryPoint) -> str:
    """The package of an entry point, with its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module


def origin(name: str) -> str | None:
    """The package that a method is from, with its version; None for nbsal's own.

    >>> origin("gradcam") is None
    True
    """
    return source(offered()[name]) if name in offered() else None


def load(name: str) -> type[Method]:
    """Import the method of that name and check that it is one."""
    entry = offered()[name]
    try:
        method = entry.load()
    except Exception as error:  # code of others
        raise InputError(
            f"The method {name!r} of {source(entry)} cannot be imported ({type(error).__name__}: {error}).",
            argument="method",
            value=name,
        ) from error
    if not (
        isinstance(method, type) and issubclass(method, Method) and all(hasattr(method, field) for field in FIELDS)
    ):
        message = f"{entry.value} of {source(entry)} is no method: a class with nbsal.methods.base.register around it."
        raise InputError(message, argument="method", value=name)
    if method.name != name:
        message = f"{source(entry)} offers {name!r}, but calls the method {method.name!r}. Both must be the same."
        raise InputError(message, argument="method", value=name)
    return method


def _is_own(name: str) -> bool:
    """Whether a method of that name is nbsal's own; that of another package may be imported already."""
    return name in REGISTER and REGISTER[name].__module__.startswith("nbsal.")
