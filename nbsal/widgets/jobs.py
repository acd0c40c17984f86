"""Background jobs with one worker thread per model; a newer job replaces an older one with the same key.

Nothing is computed in the thread where comm messages arrive: handlers submit a job and return. A job that is replaced
before it starts is dropped. For one that is running, its `cancel` event is set; it stops at its next step, and its
result is not shown.
"""

import atexit
import weakref
from collections.abc import Callable, Hashable
from threading import Condition, Event, Thread, current_thread
from typing import Any


class Job:
    """Work for a worker, and the event that cancels it."""

    def __init__(self, key: Hashable, run: Callable[["Job"], None]) -> None:
        self.key = key
        self.run = run
        self.cancel = Event()


class Worker:
    """A thread that runs jobs one at a time, in the order in which their keys were first submitted.

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
        """Queue a job; an older one with the same key is dropped, or cancelled if it is running."""
        job = Job(key, run)
        with self._changed:
            if self._running is not None and self._running.key == key:
                self._running.cancel.set()
            if (replaced := self._waiting.get(key)) is not None:
                replaced.cancel.set()
            self._waiting[key] = job
            if self._thread is None:
                self._thread = Thread(target=self._work, name="nbsal-worker", daemon=True)
                self._thread.start()
            self._changed.notify()
        return job

    def withdraw(self, job: Job) -> bool:
        """Cancel a job; return True if it had not started and now never will."""
        job.cancel.set()
        with self._changed:
            if self._waiting.get(job.key) is not job:
                return False
            del self._waiting[job.key]
            return True

    def close(self) -> None:
        """Cancel the running job, drop the others, and let the thread end."""
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
        """Whether the caller runs in this thread."""
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


EXIT_TIMEOUT = 5.0  # seconds to wait for running jobs when Python exits: torch aborts the process if one still runs

_WORKERS: weakref.WeakKeyDictionary[Any, Worker] = weakref.WeakKeyDictionary()


def worker(subject: Any) -> Worker:
    """The worker of a subject; it ends when the subject is deleted."""
    if subject not in _WORKERS:
        new = _WORKERS.setdefault(subject, Worker())
        weakref.finalize(subject, new.close)
    return _WORKERS[subject]


@atexit.register
def _close_all() -> None:
    workers = list(_WORKERS.values())
    for each in workers:
        each.close()
    for each in workers:
        each.join(EXIT_TIMEOUT)
