"""Jobs: one worker thread for each model; of the requests with one key only the newest is kept.

Nothing computes where comm messages arrive: handlers submit a job and return. A job that is superseded before it starts
is dropped; one that runs is told so through its `cancel`, ends at its next step, and its result is not shown.
"""

import atexit
import weakref
from collections.abc import Callable, Hashable
from threading import Condition, Event, Thread, current_thread
from typing import Any


class Job:
    """One piece of work, and the event that asks it to stop."""

    def __init__(self, key: Hashable, run: Callable[["Job"], None]) -> None:
        self.key = key
        self.run = run
        self.cancel = Event()


class Worker:
    """A thread that runs jobs one at a time, in the order their keys were first asked for.

    >>> done = Event()
    >>> job = Worker().submit("key", lambda job: done.set())
    >>> done.wait(5)
    True
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: dict[Hashable, Job] = {}
        self._running: Job | None = None
        self._closed = False
        self._thread: Thread | None = None

    def submit(self, key: Hashable, run: Callable[[Job], None]) -> Job:
        """Queue a job; older ones of its key are dropped, or told to stop."""
        job = Job(key, run)
        with self._changed:
            if self._running is not None and self._running.key == key:
                self._running.cancel.set()
            if (superseded := self._waiting.get(key)) is not None:
                superseded.cancel.set()
            self._waiting[key] = job
            if self._thread is None:
                self._thread = Thread(target=self._work, name="nbsal-worker", daemon=True)
                self._thread.start()
            self._changed.notify()
        return job

    def withdraw(self, job: Job) -> bool:
        """Ask a job to stop; True where it had not begun and now never will."""
        job.cancel.set()
        with self._changed:
            if self._waiting.get(job.key) is not job:
                return False
            del self._waiting[job.key]
            return True

    def close(self) -> None:
        """Let the thread end, as soon as its job stops."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            if self._running is not None:
                self._running.cancel.set()
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end."""
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def here(self) -> bool:
        """Whether the caller runs on this worker."""
        return current_thread() is self._thread

    def _work(self) -> None:
        while True:
            with self._changed:
                self._running = None
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                self._running = job = self._waiting.pop(next(iter(self._waiting)))
            job.run(job)
            del job


LAST = 5.0  # seconds that the end of Python waits for a job that stops: torch aborts the process under a running one

_WORKERS: weakref.WeakKeyDictionary[Any, Worker] = weakref.WeakKeyDictionary()


def worker(subject: Any) -> Worker:
    """The worker of a subject; it ends when the subject is gone."""
    if subject not in _WORKERS:
        made = _WORKERS.setdefault(subject, Worker())
        weakref.finalize(subject, made.close)
    return _WORKERS[subject]


@atexit.register
def _end() -> None:
    workers = list(_WORKERS.values())
    for each in workers:
        each.close()
    for each in workers:
        each.join(LAST)
