"""The folder that a run writes to: an empty one, or a corpus that does not hold the source."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbsal.corpus.folder.manifest import Manifest
from nbsal.corpus.folder.storage import LOCK, TEMPORARY, Storage
from nbsal.support.errors import InputError
from nbsal.support.lazy import fsspec
from nbsal.support.validation import file_path


def open_destination(out: str | os.PathLike[str], source: Any) -> Storage:
    """The storage of a folder that a run may write to; nothing is written yet."""
    if isinstance(out, str) and not out.strip():
        raise InputError(f"out={out!r} names no folder. Pass the folder to write to.", argument="out", value=out)
    storage = Storage(out, "out")
    if _is_no_folder(storage):
        raise InputError(f"{storage.location} is or lies below a file. Choose a folder.", argument="out", value=out)
    if isinstance(source, str | os.PathLike) and _overlap(storage, os.fspath(file_path(source, "source"))):
        raise InputError(
            f"{storage.location} holds the source {source}, or is a part of it. Choose a folder apart from the source.",
            argument="out",
            value=out,
        )
    names = [] if Manifest.read(storage) else sorted(storage.sizes())
    # A run that was killed before it wrote its manifest leaves only a lock and temporary files.
    foreign = [name for name in names if name != LOCK and not TEMPORARY.fullmatch(name)]
    if foreign:
        raise InputError(
            f"{storage.location} is not empty and holds no corpus: it has {', '.join(foreign[:3])}"
            f"{', ...' if foreign[3:] else ''}. Choose an empty folder or a new name.",
            argument="out",
            value=out,
        )
    return storage


def _overlap(storage: Storage, source: str) -> bool:
    """Whether the source is in the folder, is the folder, or is a folder around it."""
    try:
        files, path = fsspec.core.url_to_fs(source)
    except (ImportError, ValueError):  # opening the source will say what is wrong
        return False
    if files != storage.files:
        return False
    if storage.local:
        return _is_in(path, storage.path) or _is_in(storage.path, path)
    folder, place = (f"{name.strip('/')}/" for name in (storage.path, path))
    return place.startswith(folder) or folder.startswith(place)


def _is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder or in it, as named or with links followed."""
    named, followed = Path(path).absolute(), Path(path).resolve()
    for place in (named, *named.parents, followed, *followed.parents):
        with suppress(OSError):  # one of them does not exist
            if place.samefile(folder):
                return True
    return False


def _is_no_folder(storage: Storage) -> bool:
    """Whether the path, or a part of it, is that of something other than a folder."""
    if not storage.local:
        return bool(storage.files.isfile(storage.path))
    path = Path(storage.path)
    return any(place.exists() and not place.is_dir() for place in (path, *path.parents))
