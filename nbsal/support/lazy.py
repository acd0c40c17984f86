"""Names that are imported when they are first used, so that results open without the packages that run models."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nbsal.support.validation import names_missing_package


def load(module: str, feature: str = "") -> ModuleType:
    """Import a module; MissingPackage names the package that it needs, if that runs models and is missing."""
    with names_missing_package(feature or module):
        return import_module(module)


def exports(
    package: Mapping[str, Any], places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package; `places` has the module of each name, which may be what is named.

    >>> find, names = exports({"__name__": "nbsal.support"}, {"plural": "validation"})
    >>> find("plural")(2, "text"), names()
    ('2 texts', ['__name__', 'plural'])
    """
    prefix = package["__name__"]

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {prefix!r} has no attribute {name!r}")
        module = load(f"{prefix}.{places[name]}", f"{prefix}.{name}")
        return module if places[name] == name else getattr(module, name)

    return find, lambda: sorted({*package, *places})


class LazyModule(ModuleType):
    """A module that is imported when one of its names is first read.

    >>> LazyModule("nbsal.support.validation").plural(2, "text")
    '2 texts'
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a question of the interpreter or of a tool
            raise AttributeError(name)
        value = getattr(load(self.__name__), name)
        setattr(self, name, value)
        return value


class LazyClass(type):
    """A class that is imported when it is first called; until then nothing is an instance of it.

    >>> lazy = LazyClass("nbsal.support.errors", "InputError")
    >>> isinstance(lazy("No."), lazy), isinstance(1, lazy)
    (True, False)
    """

    def __new__(mcs, module: str, name: str) -> "LazyClass":
        return super().__new__(mcs, name, (), {"__module__": module})

    def __init__(cls, module: str, name: str) -> None:
        super().__init__(name, (), {})

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return cls._load()(*args, **options)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(cls._load(), name)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls._imported())

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls._imported())

    def _load(cls) -> Any:
        return getattr(load(cls.__module__, f"nbsal.{cls.__name__}"), cls.__name__)

    def _imported(cls) -> Any:
        """The class, or no class at all before its module was imported."""
        return getattr(sys.modules.get(cls.__module__), cls.__name__, ())


if TYPE_CHECKING:
    import fsspec as fsspec
    import pandas as pandas
    import psutil as psutil
    import pyarrow as pyarrow
    import torch as torch
    import transformers as transformers
    from matplotlib import pyplot as pyplot
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
    from pandas.io.formats.style import Styler as Styler
    from pyarrow import dataset as dataset
    from pyarrow import parquet as parquet
    from torch import Tensor as Tensor
else:  # what only some calls need, such as tables and pictures of a result
    pandas, pyplot, transformers = (LazyModule(name) for name in ("pandas", "matplotlib.pyplot", "transformers"))
    torch, fsspec, psutil = (LazyModule(name) for name in ("torch", "fsspec", "psutil"))
    pyarrow, dataset, parquet = (LazyModule(name) for name in ("pyarrow", "pyarrow.dataset", "pyarrow.parquet"))
    Axes, Figure = LazyClass("matplotlib.axes", "Axes"), LazyClass("matplotlib.figure", "Figure")
    Styler, Tensor = LazyClass("pandas.io.formats.style", "Styler"), LazyClass("torch", "Tensor")
