"""Every error that nbsal raises on purpose.

The text of each says what is wrong and what to do. Errors about an argument also carry it as data: `argument` is its
name, `value` what was passed, `valid` what may be passed instead (where there is a list of such values).
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

LONG_LIST = 8  # names: a message with more of them says which is the closest
MODEL_PACKAGES = ("torch", "transformers", "captum", "tokenizers", "safetensors")  # needed to explain, not to show
LISTED = 12  # names that a message lists; of more, it says where they are
NEAREST = 3  # of a longer list, where none is similar


class NbsalError(Exception):
    """Base class of every error raised by nbsal.

    `partial` holds the results that a long call had produced before it stopped, where there are any.
    """

    partial: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross between processes: restore them from what they hold, not by calling __init__ with its arguments.
        return _restore, (type(self), self.args), vars(self)


def _restore(kind: type[NbsalError], args: tuple[Any, ...]) -> NbsalError:
    return kind.__new__(kind, *args)


class InputError(NbsalError, ValueError):
    """An argument, a text or a target that cannot be used.

    >>> InputError("layer must be at least 0, not -1.", argument="layer", value=-1).argument
    'layer'
    """

    def __init__(self, message: str, *, argument: str | None = None, value: object = None) -> None:
        super().__init__(message)
        self.argument = argument
        self.value = value


class NoSuchRow(InputError, IndexError):
    """A number that no row of a sequence has; an IndexError, which ends a loop over the sequence."""


class FileError(InputError, OSError):
    """A file that cannot be read or written: the disk, the permissions or the name are to blame, not the content."""

    def __init__(self, message: str, *, argument: str | None = None, value: object = None, error: OSError) -> None:
        super().__init__(message, argument=argument, value=value)
        self.errno, self.strerror, self.filename = error.errno, error.strerror, error.filename

    def __str__(self) -> str:
        return str(self.args[0])


class MissingFile(FileError, FileNotFoundError):
    """A file or folder that does not exist."""


def file_error(argument: str, value: object, error: OSError) -> FileError:
    """What to raise in place of the system's error about a file, which the argument names or contains.

    >>> str(file_error("path", "/nowhere/a.json", FileNotFoundError(2, "No such file", "/nowhere/a.json")))
    "path='/nowhere/a.json': the folder /nowhere does not exist. Pass a path in a folder that exists."
    """
    file = str(error.filename or value)
    folder = Path(file).absolute().parent
    path = f"{argument}={str(value)!r:.200}"
    subject = path if file == str(value) else f"{path}: {file}"
    kind: type[FileError] = MissingFile
    if not isinstance(error, FileNotFoundError):
        kind, message = FileError, f"{subject} cannot be used: {error.strerror or error}."
    elif "://" not in file and not folder.is_dir():
        message = f"{path}: the folder {folder} does not exist. Pass a path in a folder that exists."
    else:
        message = f"{subject} does not exist."
    return kind(message, argument=argument, value=value, error=error)


class TableMissing(InputError):
    """A benchmark table that is neither in a local folder nor available from the hub."""


class UnknownName(InputError):
    """A name that is not one of the valid ones, which the message lists.

    `suggestion` is the name of a long list that the value looks like a misspelling of; the message also names others
    that the value is a part of, or the nearest where none is similar. `problem` and `choice` replace
    the two sentences of the message, `where` says where all names of a long list are. `spelled` is what is compared
    with them if it is not the value, such as the name of an unknown argument.

    >>> str(UnknownName("way", "zero", ["remove", "mask", "pad"]))
    "Unknown way='zero'. Choose one of: remove, mask, pad."
    """

    def __init__(
        self,
        argument: str,
        value: object,
        valid: Iterable[object],
        problem: str = "",
        choice: str = "",
        where: str = "`error.valid` lists",
        spelled: object = None,
    ) -> None:
        self.valid = tuple(valid)
        spelled, texts = value if spelled is None else spelled, [name for name in self.valid if isinstance(name, str)]
        similar = _similar(spelled, texts)
        self.suggestion = similar[0] if similar else None
        problem = problem or f"Unknown {argument}={value!r}."
        hint = f"Did you mean {' or '.join(filter(None, [', '.join(similar[:-1]), similar[-1]]))}? " if similar else ""
        names = listed(self.valid)
        if len(self.valid) > LISTED and texts:
            nearest = "" if similar else f"The nearest: {', '.join(_nearest(spelled, texts))}. "
            choice = choice or f"{nearest}{where} all {len(self.valid)} names."
        choice = choice or (f"Choose one of: {names}." if names else "There is none to choose from.")
        super().__init__(f"{problem} {hint}{choice}", argument=argument, value=value)


def listed(names: Sequence[object]) -> str:
    """Names in a message: of a long list the first ones, and how many more there are.

    >>> listed(range(30_000))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 29,988 more'
    """
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return f"{', '.join(map(str, names[:LISTED]))}{more}"


def _similar(value: object, names: Sequence[str]) -> list[str]:
    """The name of a long list that a string resembles most, if it resembles any, and those that it is a part of."""
    if not isinstance(value, str) or len(names) <= LONG_LIST:
        return []
    value = value.lower()
    if prefixes := [name for name in names if value.startswith(name.lower())]:
        return [max(prefixes, key=len)]
    plain = [name for name in names if "@" not in name]  # variants of a name only where nothing else is similar
    similar = get_close_matches(value, plain, n=1) or get_close_matches(value, names, n=1)
    return list(dict.fromkeys([*similar, *(name for name in plain if value in name.lower().split("-"))]))


def _nearest(value: object, names: Sequence[str]) -> list[str]:
    """The names that a string resembles most, however little."""
    return get_close_matches(str(value).lower(), names, n=NEAREST, cutoff=0.0)


class BrokenView(InputError, AttributeError):
    """A view that another package offers and that cannot be used; an AttributeError, so that tools can list modules."""


class OverBudget(InputError):
    """More calls of a server are needed than its budget allows; what was paid for is kept, in `cache` or in memory.

    `needed` is how many are still to be sent, `left` how many the budget allows.
    """

    def __init__(self, needed: int, left: int, budget: int) -> None:
        message = (
            f"{needed:,} more calls are needed, and the budget of {budget:,} allows {max(left, 0):,}. Pass budget="
            f"{budget - left + needed} or more to nbsal.Endpoint (with the same cache=..., no call is sent again), "
            "larger units, or a method with fewer samples."
        )
        super().__init__(message, argument="budget", value=budget)
        self.needed, self.left = needed, max(left, 0)


class ServerError(NbsalError):
    """A server that failed, or did not return what it must; `status` is that of HTTP, if there was one.

    What it had returned before is kept: the same call goes on from there.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ClusterError(NbsalError):
    """The connection to a Dask cluster broke, with finished shards kept: the same call goes on from there."""


class ModelError(NbsalError):
    """A model that lacks a required part, or whose weights or layout cannot be used.

    `part` names what is missing or unsuitable, where there is one such part.
    """

    def __init__(self, message: str, *, part: str | None = None) -> None:
        super().__init__(message)
        self.part = part


class LanguageHeadError(ModelError):
    """No LM head is available that can decode this model's hidden layers."""


class WeightsError(NbsalError):
    """The base weights of the embedded models are missing or are not the published ones."""


class OutOfMemory(MemoryError, NbsalError):  # in this order: Dask restores errors with __new__ and their arguments
    """There is not enough memory, even for one text at a time; `fitting` names methods that need little enough."""

    fitting: tuple[str, ...] = ()


class MissingExtra(NbsalError, ImportError):
    """An optional dependency is not installed; `extra` names the extra that installs it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency. Install it with: pip install 'nbsal[{extra}]'")
        self.extra = extra


class MissingPackage(MissingExtra):
    """A package that runs models is not installed: results open without it; `package` is its name.

    >>> str(MissingPackage("nbsal.load", "torch"))
    'nbsal.load needs torch, which is not installed. Install it with: pip install nbsal'
    """

    def __init__(self, feature: str, package: str) -> None:
        problem = f"{feature} needs {package}, which is not installed."
        ImportError.__init__(self, f"{problem} Install it with: pip install nbsal")
        self.extra, self.package = "", package


class Cancelled(NbsalError):
    """A long call was cancelled by the caller."""
