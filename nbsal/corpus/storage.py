"""Storage: a folder, here or wherever fsspec reaches; files are written whole or not at all, by one run at a time."""

import hashlib
import json
import os
import socket
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nbsal.errors import InputError, MissingExtra

LOCK = "_lock.json"
# Readers of Parquet folders pass over names that begin with "_".
UNFINISHED = ("_", ".tmp")


class Storage:
    """Files of one folder by name.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Storage(folder).write("one", b"1")
    ...     Storage(folder).read("one")
    b'1'
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        try:
            import fsspec
            import psutil  # noqa: F401 - comes with distributed; asks after the owners of locks
            import pyarrow  # noqa: F401
        except ImportError:
            raise MissingExtra("A whole corpus", "scale") from None
        if not isinstance(place, str | os.PathLike):
            raise InputError(f"A corpus lies in a folder, or at an address that fsspec knows, not at {place!r:.60}.")
        self.place = os.fspath(place)
        try:
            self.files, self.path = fsspec.core.url_to_fs(self.place)
        except (ImportError, ValueError) as error:
            raise InputError(f"{self.place} is no folder that can be reached here: {error}.") from error
        self.local = self.files.protocol == "file" or "file" in self.files.protocol

    def where(self, name: str) -> str:
        """The path of a file within its file system."""
        return f"{self.path.rstrip('/')}/{name}"

    def write(self, name: str, data: bytes) -> None:
        """Put a file there whole: after a crash it is the old one or the new one, and on disk."""
        self.files.makedirs(self.path, exist_ok=True)
        if not self.local:  # object stores put whole objects
            self.files.pipe_file(self.where(name), data)
            return
        temporary = self._temporary(name, data)
        try:
            temporary.replace(self.where(name))
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _settle(Path(self.path))

    def create(self, name: str, data: bytes) -> bool:
        """Put a file there unless there is one already; says whether it did."""
        self.files.makedirs(self.path, exist_ok=True)
        if not self.local:
            if self.files.exists(self.where(name)):
                return False
            self.files.pipe_file(self.where(name), data)
            return True
        temporary = self._temporary(name, data)
        try:
            os.link(temporary, self.where(name))
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True

    def read(self, name: str) -> bytes | None:
        """What a file holds; None where there is none."""
        try:
            found: bytes = self.files.cat_file(self.where(name))
        except FileNotFoundError:
            return None
        return found

    def sound(self, name: str, checksum: str) -> bytes | None:
        """What a file holds, if it is there and as it was written."""
        data = self.read(name)
        return data if data is not None and digest(data) == checksum else None

    def remove(self, name: str) -> None:
        """Take a file away."""
        self.files.rm_file(self.where(name))

    def sweep(self) -> None:
        """Take away what writers that were killed left unfinished."""
        start, end = UNFINISHED
        for path in self.files.ls(self.path, detail=False) if self.files.exists(self.path) else []:
            name = path.rsplit("/", 1)[-1]
            if name.startswith(start) and name.endswith(end):
                with suppress(FileNotFoundError):  # its writer lives, and has just finished
                    self.remove(name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One run at a time: a second one is refused; the lock of a dead process is taken over, and that is said."""
        own = json.dumps(_owner()).encode()
        while not self.create(LOCK, own):
            held = self.read(LOCK)  # none if it was released just now
            if held is not None and self._taken_over(held, own):
                break
        try:
            yield
        finally:
            if self.read(LOCK) == own:
                self.remove(LOCK)

    def _taken_over(self, held: bytes, own: bytes) -> bool:
        """Put one's own lock in the place of a dead process's; refuse if it lives."""
        owner = _parsed(held)
        if _alive(owner):
            raise InputError(
                f"{self.place} is being written by process {owner.get('pid')} on {owner.get('host')}: wait for it, or "
                f"choose another folder. If that process is gone, remove {LOCK} there and run this again."
            )
        # Of several that find it dead, only the one that makes this file may touch the lock.
        right = f"{UNFINISHED[0]}lock.{digest(held)[:16]}{UNFINISHED[1]}"
        if not self.create(right, own):
            raise InputError(
                f"{self.place} is being taken over by another run. If there is none, remove {right} there."
            )
        same = self.read(LOCK) == held
        if same:
            self.write(LOCK, own)
            warnings.warn(
                f"{self.place} was left by process {owner.get('pid')}, which is gone: this run goes on from there.",
                stacklevel=4,
            )
        self.remove(right)
        return same

    def _temporary(self, name: str, data: bytes) -> Path:
        """The data on disk under a name that nobody reads."""
        path = Path(self.where(f"{UNFINISHED[0]}{name}.{uuid.uuid4().hex}{UNFINISHED[1]}"))
        try:
            with path.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path


def digest(data: bytes) -> str:
    """The checksum of a file's content."""
    return hashlib.sha256(data).hexdigest()


def _settle(folder: Path) -> None:
    """Bring a rename to disk; Windows opens no folders and needs none."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _owner() -> dict[str, Any]:
    import psutil

    return {"host": socket.gethostname(), "pid": os.getpid(), "began": psutil.Process().create_time()}


def _parsed(held: bytes) -> dict[str, Any]:
    try:
        found = json.loads(held)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _alive(owner: dict[str, Any]) -> bool:
    """Whether the owner of a lock still runs; on another machine nobody can tell, so it is taken to."""
    import psutil

    if not owner:
        return False
    if owner.get("host") != socket.gethostname():
        return True
    try:
        process = psutil.Process(owner["pid"])
        # A number that was given to another process since.
        same: bool = abs(process.create_time() - owner["began"]) < 2
        return same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, LookupError, TypeError, ValueError, OverflowError):
        return False
