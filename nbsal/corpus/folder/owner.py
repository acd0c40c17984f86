"""The run that holds a lock: how it is stored in the lock, and whether it is still running."""

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass
from typing import Self

from nbsal.support.lazy import psutil

RUNNING: set[str] = set()  # ids of the runs of this process that hold a lock or wait for it


@dataclass(frozen=True)
class Owner:
    """A run in a process; the names of its fields are keys of the stored lock."""

    host: str
    pid: int
    began: float  # when the process started, because ids of processes are used again
    run: str = ""

    @classmethod
    def current(cls) -> Self:
        return cls(socket.gethostname(), os.getpid(), psutil.Process().create_time(), uuid.uuid4().hex)

    @classmethod
    def from_lock(cls, lock: bytes | None) -> Self | None:
        """The owner of a lock; None if there is no lock, or if it is only half written."""
        try:
            stored = json.loads(lock or b"")
            owner = cls(str(stored["host"]), int(stored["pid"]), float(stored["began"]), str(stored.get("run", "")))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
            return None
        return owner

    def to_lock(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def is_running(self) -> bool:
        """Whether the run has not ended; assumed on other machines, where it cannot be checked."""
        if self.host != socket.gethostname():
            return True
        if self.pid == os.getpid() and self.run not in RUNNING:
            return False  # it was interrupted before it could remove its lock
        try:
            process = psutil.Process(self.pid)
            same: bool = abs(process.create_time() - self.began) < 2
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.AccessDenied:
            return True
        except (psutil.NoSuchProcess, ValueError, OverflowError):
            return False
