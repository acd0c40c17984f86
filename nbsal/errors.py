"""Every error a user can meet, a sentence each."""

from collections.abc import Iterable
from typing import Any


class NbsalError(Exception):
    """The root of every error nbsal raises on purpose; its text says what is wrong and the way out.

    `partial` is what a long call had done by then, where it can say.
    """

    partial: Any = None


class InputError(NbsalError, ValueError):
    """A text, a target or an argument that cannot be explained as given."""


class TableMissing(InputError):
    """A benchmark table that lies in no folder here, and that the hub does not give."""


class _Worded(NbsalError):
    """An error that words its sentence itself; it is pickled as raised, since errors cross between processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _raised, (type(self), self.args), vars(self)


def _raised(kind: type[NbsalError], args: tuple[Any, ...]) -> NbsalError:
    return kind.__new__(kind, *args)


class UnknownName(_Worded, ValueError):
    """A name that stands for nothing here; the valid ones are listed."""

    def __init__(self, kind: str, name: object, valid: Iterable[object]) -> None:
        listed = ", ".join(map(str, valid)) or "none"
        super().__init__(f"There is no {kind} {name!r}. Valid: {listed}.")


class ModelError(NbsalError):
    """A model that lacks what was asked of it, or whose weights cannot be trusted."""


class LanguageHeadError(ModelError):
    """No LM head can decode this model's hidden layers as things stand."""


class WeightsError(NbsalError):
    """The embedded default's weights are missing, or are not the published ones."""


class OutOfMemory(MemoryError, NbsalError):  # in this order, else Dask cannot make it again from its arguments
    """There is not enough memory for even one text at a time."""


class MissingExtra(_Worded, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional part: pip install 'nbsal[{extra}]'.")


class Cancelled(NbsalError):
    """The caller asked a long call to stop."""
