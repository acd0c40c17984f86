"""The documented API: the modules that users import from, and every class and function in them."""

import importlib
import inspect
from types import ModuleType
from typing import Any

import nbsal

PACKAGES = ("nbsal", *(f"nbsal.{name}" for name in "heads evaluation corpus live widgets samples testing".split()))
MODULES = (
    *("nbsal.data", "nbsal.clouds", "nbsal.lrp.rules", "nbsal.lrp.mode", "nbsal.methods.catalogue"),
    *(f"nbsal.figures.{name}" for name in "decoding_saliency relevance mask_lrp flow checkpoints pages tables".split()),
)


def module(place: str) -> ModuleType:
    """The module that users know by this name; some lie in a room of the package."""
    _, _, name = place.partition(".")
    first, *rest = name.split(".")
    return importlib.import_module(".".join(filter(None, ["nbsal", nbsal._MODULES.get(first, first), *rest])))


def public() -> dict[str, Any]:
    """Every class and function that a reader of the documentation meets, by its full name."""
    members = {}
    for place in (*PACKAGES, *MODULES):
        room = module(place)
        for name in dir(room):
            member = getattr(room, name)
            documented = name[0] != "_" and (inspect.isclass(member) or inspect.isfunction(member))
            if documented and (
                member.__module__ == room.__name__ or (place in PACKAGES and "nbsal." in member.__module__)
            ):
                members[f"{member.__module__}.{member.__qualname__}"] = member
    return members
