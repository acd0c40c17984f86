"""What a server said, by a checksum of what it was asked: in a file that threads and processes share, or in memory."""

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbsal.support.errors import InputError

BUSY = 30.0  # seconds that a process waits for another one to finish writing
MANY = 500  # keys of a query
# A view or a trigger in a file of somebody else runs queries of its own, which may never end.
FOREIGN = "SELECT 1 FROM sqlite_master WHERE lower(tbl_name) = 'calls' AND type IN ('view', 'trigger')"


def checksum(parts: Any) -> str:
    """The key of what is asked."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def damaged(path: Any) -> InputError:
    """The error for a cache that holds what was never put there; others may have edited the file."""
    message = f"cache={str(path)!r:.200} holds something else than what a server said. Pass another file."
    return InputError(message, argument="cache", value=path)


class CallCache:
    """Results by key, as JSON."""

    __slots__ = ("_connection", "_lock", "_process", "path")

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else str(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._run("SELECT count(*) FROM calls")

    def get(self, keys: Sequence[str]) -> dict[str, Any]:
        """Those of some results that are there."""
        results: dict[str, Any] = {}
        for first in range(0, len(keys), MANY):
            part = keys[first : first + MANY]
            rows = self._run(f"SELECT key, result FROM calls WHERE key IN ({','.join('?' * len(part))})", part)
            try:
                results |= {key: json.loads(result) for key, result in rows}
            except (ValueError, TypeError, RecursionError):
                raise damaged(self.path) from None
        return results

    def put(self, key: str, result: Any) -> None:
        """Keep a result, at once and for good."""
        self._run("INSERT OR REPLACE INTO calls VALUES (?, ?)", (key, json.dumps(result)))

    def _run(self, query: str, values: Sequence[str] = ()) -> list[tuple[str, str]]:
        with self._lock:
            try:
                if self._connection is None or self._process != os.getpid():  # a connection is not of a forked process
                    self._connection, self._process = self._open(), os.getpid()
                return self._connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                problem = f"cache={self.path!r:.200} cannot be used: {error}."
        raise InputError(f"{problem} Pass another file, in a folder that exists.", argument="cache", value=self.path)

    def _open(self) -> sqlite3.Connection:
        options: dict[str, Any] = {"timeout": BUSY, "check_same_thread": False, "isolation_level": None}
        connection: sqlite3.Connection = sqlite3.connect(self.path or ":memory:", **options)
        if connection.execute(FOREIGN).fetchone():
            raise sqlite3.DatabaseError("it has a view or a trigger, which another program made")
        for setting in ("journal_mode=WAL", "synchronous=NORMAL"):  # a killed process loses nothing, and nobody waits
            connection.execute(f"PRAGMA {setting}")
        connection.execute("CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, result TEXT NOT NULL)")
        return connection
