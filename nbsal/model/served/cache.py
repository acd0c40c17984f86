"""What a server said, what it is asked just now, and how often it was: in a file that processes share, or in memory."""

import hashlib
import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from nbsal.support.errors import InputError, OverBudget
from nbsal.support.warning import warn

BUSY = 30.0  # seconds that a process waits for another one to finish writing
MANY = 500  # keys of a query
LEASE = 10.0  # seconds after which a call of a process that was killed counts as no longer on its way
BEAT = 3.0  # seconds after which a process that lives extends them
TABLES = (
    "CREATE TABLE calls (key TEXT PRIMARY KEY, result TEXT NOT NULL)",
    "CREATE TABLE sending (key TEXT PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL)",
    "CREATE TABLE sent (endpoint TEXT PRIMARY KEY, calls INTEGER NOT NULL)",
)
READ_ONLY = ("SQLITE_READONLY", "SQLITE_CANTOPEN")  # what sqlite says where it cannot write


def checksum(parts: Any) -> str:
    """The key of what is asked."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def damaged(path: Any) -> InputError:
    """The error for a cache that holds what was never put there; others may have edited the file."""
    message = f"cache={str(path)!r:.200} holds something else than what a server said. Pass another file."
    return InputError(message, argument="cache", value=path)


class CallCache:
    """Results by key, as JSON, the calls that are on their way, and the number of calls that were sent.

    All copies of an endpoint have the same cache, pickled ones too, and so one budget.
    """

    __slots__ = ("__weakref__", "_beating", "_connection", "_lock", "_maker", "_opener", "_owner", "_token", "path")

    def __init__(self, path: str | Path | None, token: str = "") -> None:
        self.path = None if path is None else str(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._maker = 0 if token else os.getpid()  # the process that counts where no file does
        self._token = token or uuid.uuid4().hex
        self._opener, self._owner, self._beating = 0, "", False
        _LIVE[self._token] = self

    def __repr__(self) -> str:
        return repr(self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.path, self._token)

    def get(self, keys: Sequence[str]) -> dict[str, Any]:
        """Those of some results that are there."""
        with self._run() as connection:
            rows = _rows(connection, "key, result FROM calls", keys)
        try:
            return {key: json.loads(result) for key, result in rows}
        except (ValueError, TypeError, RecursionError):
            raise damaged(self.path) from None

    def sent(self, endpoint: str) -> int:
        """How many calls were sent, by all that share the cache."""
        with self._run() as connection:
            return _count(connection, endpoint)

    def on_their_way(self, keys: Sequence[str]) -> set[str]:
        """Those of some calls that a thread or a process that lives has sent, and that are not answered yet."""
        with self._run() as connection:
            return _busy(connection, keys)

    def take(self, keys: Sequence[str], endpoint: str, budget: int | None) -> list[str]:
        """Those of some calls that nobody has sent: the caller shall, and they count, unless OverBudget is raised."""
        self._check_countable(budget)
        with self._run("IMMEDIATE") as connection:
            taken = _busy(connection, keys) | {key for (key,) in _rows(connection, "key FROM calls", keys)}
            free = [key for key in dict.fromkeys(keys) if key not in taken]
            _add(connection, endpoint, len(free), budget)
            until = time.time() + LEASE if self.path else float("inf")
            entries = [(key, self._owner, until) for key in free]
            connection.executemany("INSERT OR REPLACE INTO sending VALUES (?, ?, ?)", entries)
        if free and self.path and not self._beating:
            self._beating = True
            threading.Thread(target=self._beat, daemon=True).start()
        return free

    def count(self, endpoint: str, budget: int | None) -> None:
        """Count another attempt at a call."""
        with self._run("IMMEDIATE") as connection:
            _add(connection, endpoint, 1, budget)

    def put(self, key: str, result: Any) -> None:
        """Keep a result, at once and for good."""
        text = json.dumps(result, default=lambda value: value.tolist())
        with self._run("IMMEDIATE") as connection:
            connection.execute("INSERT OR REPLACE INTO calls VALUES (?, ?)", (key, text))
            connection.execute("DELETE FROM sending WHERE key = ?", (key,))

    def release(self, keys: Sequence[str]) -> None:
        """Say that calls which this process took are no longer on their way."""
        with self._run("IMMEDIATE") as connection:
            entries = [(key, self._owner) for key in keys]
            connection.executemany("DELETE FROM sending WHERE key = ? AND owner = ?", entries)

    def _beat(self) -> None:
        """Extend the calls on their way while there are any."""
        with suppress(InputError):  # the file has gone: whoever sends says so
            while self._beating:
                time.sleep(BEAT)
                with self._run("IMMEDIATE") as connection:
                    values = (time.time() + LEASE, self._owner)
                    self._beating = (
                        connection.execute("UPDATE sending SET until = ? WHERE owner = ?", values).rowcount > 0
                    )
        self._beating = False

    def _check_countable(self, budget: int | None) -> None:
        """Refuse a budget of which other processes spend, too, where no file counts."""
        if budget is not None and self.path is None and self._maker != os.getpid():
            message = (
                "Processes share a budget through the file that cache=... names. Pass one to nbsal.Endpoint, or "
                "budget=None."
            )
            raise InputError(message, argument="cache", value=None)

    @contextmanager
    def _run(self, mode: str = "DEFERRED") -> Iterator[sqlite3.Connection]:
        """A transaction; nothing of it remains if it fails."""
        with self._lock:
            try:
                connection = self._opened()
                connection.execute(f"BEGIN {mode}")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
                return
            except sqlite3.Error as error:
                problem = f"cache={self.path!r:.200} cannot be used: {error}."
        raise InputError(f"{problem} Pass another file, in a folder that exists.", argument="cache", value=self.path)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None or self._opener != os.getpid():  # a connection is not of a forked process
            self._connection, self._opener = _open(self.path), os.getpid()
            self._owner, self._beating = uuid.uuid4().hex, False
        return self._connection


_LIVE: WeakValueDictionary[str, CallCache] = WeakValueDictionary()  # those of this process


def _restored(path: str | None, token: str) -> CallCache:
    """The cache of a pickled endpoint: the same in the process that pickled it."""
    return _LIVE.get(token) or CallCache(path, token)


def _rows(connection: sqlite3.Connection, columns: str, keys: Sequence[str]) -> list[Any]:
    rows: list[Any] = []
    for first in range(0, len(keys), MANY):
        part = keys[first : first + MANY]
        query = f"SELECT {columns} WHERE key IN ({','.join('?' * len(part))})"
        rows += connection.execute(query, part).fetchall()
    return rows


def _busy(connection: sqlite3.Connection, keys: Sequence[str]) -> set[str]:
    return {key for key, until in _rows(connection, "key, until FROM sending", keys) if until > time.time()}


def _count(connection: sqlite3.Connection, endpoint: str) -> int:
    row = connection.execute("SELECT calls FROM sent WHERE endpoint = ?", (endpoint,)).fetchone()
    return int(row[0]) if row else 0


def _add(connection: sqlite3.Connection, endpoint: str, calls: int, budget: int | None) -> None:
    """Add calls to those that were sent, or raise OverBudget."""
    sent = _count(connection, endpoint)
    if calls and budget is not None and sent + calls > budget:
        raise OverBudget(calls, budget - sent, budget)
    connection.execute("INSERT OR REPLACE INTO sent VALUES (?, ?)", (endpoint, sent + calls))


def _open(path: str | None) -> sqlite3.Connection:
    if path is None:
        return _prepared(_connect(":memory:"))
    with suppress(OSError):  # the folder or the file cannot be written, or the file exists
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        return _prepared(_connect(path))
    except sqlite3.OperationalError as error:
        if not error.sqlite_errorname.startswith(READ_ONLY) or not Path(path).is_file():
            raise
    warn(f"cache={path!r:.200} cannot be written. New replies are kept in memory only.")
    return _prepared(_copied(path))


def _connect(address: str, uri: bool = False) -> sqlite3.Connection:
    options: dict[str, Any] = {"timeout": BUSY, "check_same_thread": False, "isolation_level": None, "uri": uri}
    connection: sqlite3.Connection = sqlite3.connect(address, **options)
    return connection


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A database with our tables; it is refused, unchanged, if it has anything else in it."""
    schema = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    if others := [name for name, sql in schema if sql not in TABLES]:  # such as a view, whose queries may never end
        raise sqlite3.DatabaseError(f"it belongs to another program, which made {others[0]!r:.40}")
    for setting in ("journal_mode=WAL", "synchronous=NORMAL"):  # a killed process loses nothing, and nobody waits
        connection.execute(f"PRAGMA {setting}")
    connection.execute("BEGIN IMMEDIATE")  # fails where nothing can be written
    for table in TABLES:
        connection.execute(table.replace("TABLE", "TABLE IF NOT EXISTS", 1))
    connection.execute("COMMIT")
    return connection


def _copied(path: str) -> sqlite3.Connection:
    """A copy, in memory, of a file that cannot be written; nobody writes to it while it is read."""
    with closing(_connect(f"{Path(path).absolute().as_uri()}?immutable=1", uri=True)) as source:
        copy = _connect(":memory:")
        source.backup(copy)
    return copy
