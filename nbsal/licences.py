"""Licences: what nbsal brings in, as the installed packages say it themselves."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
UNSAID = "not said"


@dataclass(frozen=True)
class Package:
    """An installed package and the licence it names."""

    name: str
    version: str
    licence: str


def brought_in(root: str = "nbsal") -> Iterator[Package]:
    """What a package needs and all its extras add, and what these need in turn, as far as it is installed.

    >>> {"torch", "numpy"} <= {package.name for package in brought_in()}
    True
    """
    known, waiting = {normal(root)}, [root]
    found = []
    while waiting:
        name = waiting.pop()
        for needed in requirements(name, extras=name == root):
            if needed not in known:
                known.add(needed)
                if (package := installed(needed)) is not None:
                    found.append(package)
                    waiting.append(needed)
    yield from sorted(found, key=lambda package: package.name)


def requirements(name: str, extras: bool) -> list[str]:
    """The names of what an installed package needs itself, with what its extras add or without."""
    stated = distribution(name).requires or []
    wanted = (one for one in stated if extras or "extra ==" not in one)
    return [normal(found[0]) for one in wanted if (found := NAME.match(one))]


def installed(name: str) -> Package | None:
    """What there is of that name."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return None
    about = found.metadata.json
    spelt = [line.rpartition(" :: ")[2] for line in about.get("classifier", []) if line.startswith("License ::")]
    text = str(about.get("license", "")).strip().partition("\n")[0]
    return Package(name, found.version, str(about.get("license_expression", "")) or ", ".join(spelt) or text or UNSAID)


def normal(name: str) -> str:
    """A name as package indexes compare it.

    >>> normal("Import_Linter")
    'import-linter'
    """
    return re.sub(r"[-_.]+", "-", name).lower()
