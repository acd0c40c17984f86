"""A folder of files, local or at any address that fsspec supports, with atomic writes and a lock against other runs."""

import errno
import hashlib
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from nbsal.corpus.folder.owner import RUNNING, Owner
from nbsal.support.errors import InputError, MissingExtra, NbsalError
from nbsal.support.validation import loading
from nbsal.support.warning import warn

LOCK = "_lock.json"
HALF_WRITTEN = 2.0  # seconds after which a lock without an owner counts as that of a dead process
# Temporary files; readers of Parquet folders ignore names that begin with "_".
TEMPORARY_PREFIX, TEMPORARY_SUFFIX = "_", ".tmp"
TEMPORARY = re.compile(rf"{TEMPORARY_PREFIX}.+\.[0-9a-f]+\{TEMPORARY_SUFFIX}")


class Storage:
    """The files of one folder, by name; `argument` names the caller's argument in errors about the location."""

    def __init__(self, location: str | os.PathLike[str], argument: str = "location") -> None:
        try:
            import fsspec
            import psutil  # noqa: F401 - comes with distributed; used to find the owners of locks
            import pyarrow  # noqa: F401
        except ImportError:
            raise MissingExtra("Explaining a corpus", "scale") from None
        self.argument, self.local = argument, False
        self.location = os.fspath(location)
        with self._access():
            self.files, self.path = fsspec.core.url_to_fs(self.location)
        self.local = "file" in self.files.protocol
        if self.local and ".." in Path(self.path).parts:  # the folder before ".." need not exist
            self.path = os.path.realpath(self.path)

    def path_of(self, name: str) -> str:
        """The path of a file within its file system."""
        return f"{self.path.rstrip('/')}/{name}"

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically: after a crash it has its old or its new content, on disk."""
        with self._access():
            self.files.makedirs(self.path, exist_ok=True)
            if not self.local:  # object stores write atomically
                self.files.pipe_file(self.path_of(name), data)
                return
        temporary = Path(self.path_of(f"{TEMPORARY_PREFIX}{name}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"))
        try:
            with temporary.open("xb") as file:
                _write_to_disk(file, data)
            temporary.replace(self.path_of(name))
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(temporary.parent)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        with self._access():
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
        """Delete a file; another writer may have deleted it already."""
        with self._access(), suppress(FileNotFoundError):
            self.files.rm_file(self.path_of(name))

    def sizes(self) -> dict[str, int | None]:
        """The names of the files with their sizes, where the store tells them, from one listing."""
        with self._access():
            self.files.invalidate_cache(self.path)
            try:
                entries = self.files.ls(self.path, detail=True)
            except FileNotFoundError:
                return {}
        folder = self.path.rstrip("/")
        paths = ((entry["name"].rstrip("/"), entry.get("size")) for entry in entries)
        return {path.rsplit("/", 1)[-1]: size for path, size in paths if path != folder}

    def remove_temporary_files(self) -> None:
        """Delete temporary files that killed writers have left."""
        for name in filter(TEMPORARY.fullmatch, self.sizes()):
            self.remove(name)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder's lock; refuse if another run holds it, and take it over with a warning from a dead one."""
        owner = Owner.current()
        try:
            RUNNING.add(owner.run)
            with self._hold(LOCK, owner):
                if not self.local and not self._refuses_second(LOCK, owner.to_lock()):
                    warn(
                        f"{self.location} cannot refuse a second run that starts at the same moment, because it has no "
                        "conditional writes. Make sure that only one run at a time writes there."
                    )
                yield
        finally:
            RUNNING.discard(owner.run)

    @contextmanager
    def _hold(self, name: str, owner: Owner) -> Iterator[None]:
        try:
            self._acquire(name, owner)
            yield
        finally:
            try:
                if self.read(name) == owner.to_lock():
                    self.remove(name)
            except NbsalError as error:  # the error that ends the run, if there is one, says more
                warn(f"The lock {name} could not be removed; the next run will remove it. {error}")

    def _acquire(self, name: str, owner: Owner) -> None:
        """Create a lock, or replace that of a dead process; refuse if the process that holds it is running."""
        lock, patience, failure = owner.to_lock(), time.monotonic() + HALF_WRITTEN, None
        while True:
            try:
                self._create(name, lock)
            except NbsalError as error:  # the store may have written the file, and only its answer was lost
                failure = error
            content = self.read(name)
            if content == lock:
                return
            holder = Owner.from_lock(content)
            if holder and holder.is_running():
                raise InputError(
                    f"{self.location} is being written by process {holder.pid} on {holder.host}. Wait for it, or "
                    f"choose another folder. If that process no longer runs, delete {name} there and try again.",
                    argument="out",
                    value=self.location,
                )
            if content is not None and (holder or time.monotonic() > patience):
                self._take_over(name, content, owner)
            elif time.monotonic() > patience:
                raise failure or InputError(
                    f"The lock {name} in {self.location} can be neither created nor read. Delete it, or choose another "
                    "folder.",
                    argument="out",
                    value=self.location,
                )
            else:  # it was removed just now, or it is being written
                time.sleep(0.02)

    def _take_over(self, name: str, content: bytes, owner: Owner) -> None:
        """Replace the lock of a dead process, unless another run does."""
        # If several runs find the process dead, only the one that holds this lock may replace its lock.
        lock = digest(name.encode() + content)[:16]
        with self._hold(f"{TEMPORARY_PREFIX}lock.{lock}{TEMPORARY_SUFFIX}", owner):
            if self.read(name) == content:
                self.write(name, owner.to_lock())
                if name == LOCK:
                    warn(f"The run that was writing {self.location} has died. Resuming its work.")

    def _create(self, name: str, data: bytes) -> None:
        """Write a file unless it exists."""
        if not self.local:
            if self.read(name) is None:
                with self._access(), suppress(FileExistsError):
                    self.files.makedirs(self.path, exist_ok=True)
                    if not _put_new(self.files, self.path_of(name), data):
                        self.files.pipe_file(self.path_of(name), data)
            return
        self.files.makedirs(self.path, exist_ok=True)
        path = Path(self.path_of(name))
        with suppress(FileExistsError, FileNotFoundError), path.open("xb") as file:
            try:
                _write_to_disk(file, data)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def _refuses_second(self, name: str, data: bytes) -> bool:
        """Whether the store refuses to create a file that exists."""
        from fsspec import AbstractFileSystem

        # fsspec's own method looks whether the file exists, and then writes.
        if not self.files.async_impl and type(self.files).pipe_file is AbstractFileSystem.pipe_file:
            return False
        try:
            _put_new(self.files, self.path_of(name), data)
        except Exception:  # some stores answer with an error of their own
            return True
        return False

    @contextmanager
    def _access(self) -> Iterator[None]:
        """Raise InputError instead of whatever a remote store raises; errors of the local disk are not changed."""
        try:
            yield
        except NbsalError:
            raise
        except Exception as error:
            if self.local:
                raise
            raise inaccessible(self.location, self.argument, error) from error


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a rename durable. Windows cannot open folders and does not need it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def inaccessible(location: str, argument: str, error: Exception) -> InputError:
    """The error for a store that does not answer as it should, whatever its library raised."""
    reason = f"{type(error).__name__}: {error}".strip().rstrip(":.")
    return InputError(
        f"Cannot access {location}: {reason:.500}. Check the address, the credentials and the connection, and run it "
        "again.",
        argument=argument,
        value=location,
    )


@contextmanager
def reading_source(path: str, kind: str) -> Iterator[None]:
    """Raise InputError if a source is not a file of that kind, or if the store that holds it fails."""
    try:
        with loading(path, kind):
            yield
    except NbsalError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and "://" not in path:
            raise
        raise inaccessible(path, "source", error) from error


def _put_new(files: Any, path: str, data: bytes) -> bool:
    """Write a file on condition that it does not exist; return False if the store has no conditional writes."""
    try:
        files.pipe_file(path, data, mode="create")
    except (NotImplementedError, TypeError):
        return False
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        return False
    return True


def _write_to_disk(file: IO[bytes], data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
