"""A folder of files, local or at any address that fsspec supports, with atomic writes and a lock against other runs."""

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
# Temporary files; readers of Parquet folders ignore names that begin with "_".
TEMPORARY_PREFIX, TEMPORARY_SUFFIX = "_", ".tmp"


class Storage:
    """The files of one folder, by name; `argument` names the caller's argument in errors about the location.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Storage(folder).write("one", b"1")
    ...     Storage(folder).read("one")
    b'1'
    """

    def __init__(self, location: str | os.PathLike[str], argument: str = "location") -> None:
        try:
            import fsspec
            import psutil  # noqa: F401 - comes with distributed; used to find the owners of locks
            import pyarrow  # noqa: F401
        except ImportError:
            raise MissingExtra("Explaining a corpus", "scale") from None
        if not isinstance(location, str | os.PathLike):
            raise InputError(
                f"A corpus is stored in a folder or at an address that fsspec supports, not at {location!r:.60}.",
                argument=argument,
                value=location,
            )
        self.location = os.fspath(location)
        try:
            self.files, self.path = fsspec.core.url_to_fs(self.location)
        except (ImportError, ValueError) as error:
            message = f"Cannot access the folder {self.location}: {error}."
            raise InputError(message, argument=argument, value=location) from error
        self.local = self.files.protocol == "file" or "file" in self.files.protocol

    def path_of(self, name: str) -> str:
        """The path of a file within its file system."""
        return f"{self.path.rstrip('/')}/{name}"

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically: after a crash it has its old or its new content, on disk."""
        self.files.makedirs(self.path, exist_ok=True)
        if not self.local:  # object stores write atomically
            self.files.pipe_file(self.path_of(name), data)
            return
        temporary = self._write_temporary(name, data)
        try:
            temporary.replace(self.path_of(name))
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(Path(self.path))

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless it exists; return whether it was written."""
        self.files.makedirs(self.path, exist_ok=True)
        if not self.local:
            if self.files.exists(self.path_of(name)):
                return False
            self.files.pipe_file(self.path_of(name), data)
            return True
        temporary = self._write_temporary(name, data)
        try:
            os.link(temporary, self.path_of(name))
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        try:
            data: bytes = self.files.cat_file(self.path_of(name))
        except FileNotFoundError:
            return None
        return data

    def read_verified(self, name: str, checksum: str) -> bytes | None:
        """The content of a file; None if it does not exist or its checksum differs."""
        data = self.read(name)
        return data if data is not None and digest(data) == checksum else None

    def remove(self, name: str) -> None:
        """Delete a file."""
        self.files.rm_file(self.path_of(name))

    def remove_temporary_files(self) -> None:
        """Delete temporary files that killed writers have left."""
        for path in self.files.ls(self.path, detail=False) if self.files.exists(self.path) else []:
            name = path.rsplit("/", 1)[-1]
            if name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX):
                with suppress(FileNotFoundError):  # its writer is alive and has just finished
                    self.remove(name)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder's lock; refuse if another run holds it, and take it over with a warning from a dead one."""
        new_lock = json.dumps(_current_owner()).encode()
        while not self.create(LOCK, new_lock):
            old_lock = self.read(LOCK)  # None if it was released just now
            if old_lock is not None and self._take_over(old_lock, new_lock):
                break
        try:
            yield
        finally:
            if self.read(LOCK) == new_lock:
                self.remove(LOCK)

    def _take_over(self, old_lock: bytes, new_lock: bytes) -> bool:
        """Replace the lock of a dead process; refuse if the process is running. Return whether it was replaced."""
        owner = _parse_owner(old_lock)
        if _is_running(owner):
            raise InputError(
                f"{self.location} is being written by process {owner.get('pid')} on {owner.get('host')}. Wait for it, "
                f"or choose another folder. If that process no longer runs, delete {LOCK} there and try again.",
                argument="out",
                value=self.location,
            )
        # If several runs find the process dead, only the one that creates this file may replace the lock.
        takeover = f"{TEMPORARY_PREFIX}lock.{digest(old_lock)[:16]}{TEMPORARY_SUFFIX}"
        if not self.create(takeover, new_lock):
            raise InputError(
                f"Another run is taking over {self.location}. If there is none, delete {takeover} there and try again.",
                argument="out",
                value=self.location,
            )
        unchanged = self.read(LOCK) == old_lock
        if unchanged:
            self.write(LOCK, new_lock)
            warnings.warn(
                f"Process {owner.get('pid')}, which was writing {self.location}, no longer runs. Resuming its work.",
                stacklevel=4,
            )
        self.remove(takeover)
        return unchanged

    def _write_temporary(self, name: str, data: bytes) -> Path:
        """Write the data to disk under a temporary name."""
        path = Path(self.path_of(f"{TEMPORARY_PREFIX}{name}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"))
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


def _sync_folder(folder: Path) -> None:
    """Make a rename durable. Windows cannot open folders and does not need it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _current_owner() -> dict[str, Any]:
    import psutil

    return {"host": socket.gethostname(), "pid": os.getpid(), "began": psutil.Process().create_time()}


def _parse_owner(lock: bytes) -> dict[str, Any]:
    try:
        owner = json.loads(lock)
    except (ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _is_running(owner: dict[str, Any]) -> bool:
    """Whether the owner of a lock is running; assumed for other machines, where it cannot be checked."""
    import psutil

    if not owner:
        return False
    if owner.get("host") != socket.gethostname():
        return True
    try:
        process = psutil.Process(owner["pid"])
        # Another process may have been given the same id since.
        same: bool = abs(process.create_time() - owner["began"]) < 2
        return same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, LookupError, TypeError, ValueError, OverflowError):
        return False
