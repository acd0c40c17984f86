"""Background jobs with one worker thread per model; a newer job replaces an older one with the same key.

Nothing is computed in the thread where comm messages arrive: handlers submit a job and return. A job that is replaced
before it starts is dropped. For one that is running, its `cancel` event is set; it stops at its next step, and its
result is not shown. Between the steps of a long job, the jobs that wait are run.
"""

import atexit
import os
import traceback
import weakref
from asyncio import get_running_loop
from collections.abc import Callable, Hashable, Iterator, Set
from contextlib import contextmanager, nullcontext, suppress
from threading import Condition, Event, RLock, Thread, current_thread
from typing import Any


class Job:
    """Work for a worker, and the event that cancels it."""

    def __init__(self, key: Hashable, run: Callable[["Job"], None]) -> None:
        self.key = key
        self.run = run
        self.cancel = Event()


def shared_condition() -> Condition:
    """A condition with a re-entrant lock, which is free again in a forked process whatever threads held it."""
    condition = Condition(RLock())
    _CONDITIONS.add(condition)
    return condition


@contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the block fails or is interrupted."""
    try:
        yield
    except BaseException:
        undo()
        raise


class Worker:
    """A thread that runs jobs in the order in which their keys were first submitted."""

    def __init__(self) -> None:
        self._changed = shared_condition()
        self._waiting: dict[Hashable, Job] = {}
        self._running: list[Job] = []  # each runs between two steps of the one before it
        self._closed = False
        self._thread: Thread | None = None
        self._threadless = False
        _ALL_WORKERS.add(self)

    def submit(self, key: Hashable, run: Callable[[Job], None]) -> Job:
        """Queue a job; an older one with the same key is dropped, or cancelled if it is running."""
        job = Job(key, run)
        with self._changed, nullcontext():  # an interrupt as the block ends strikes the innermost exit
            for running in self._running:
                if running.key == key:
                    running.cancel.set()
            if (replaced := self._waiting.get(key)) is not None:
                replaced.cancel.set()
            self._waiting[key] = job
        self.resume()
        return job

    def resume(self) -> None:
        """Run the waiting jobs, if there are any; a forked process has the jobs of its parent, but not its threads."""
        with self._changed, nullcontext():
            if self._waiting and not self._closed and (self._thread is None or not self._thread.is_alive()):
                self._thread = Thread(target=self._work, name="nbsal-worker", daemon=True)
                try:
                    self._thread.start()
                    self._threadless = False
                except RuntimeError:  # Python in a page has no threads
                    self._thread, self._threadless = None, True
                    with suppress(RuntimeError):  # without an event loop, whoever waits runs them
                        get_running_loop().call_soon(self.run_waiting)
            self._changed.notify()

    def help(self) -> None:
        """Start the waiting jobs, and run them in this thread where there is no other: before waiting for one."""
        self.resume()
        if self._threadless:
            self.run_waiting()

    def withdraw(self, job: Job) -> bool:
        """Cancel a job; return True if it had not started and now never will."""
        job.cancel.set()
        with self._changed, nullcontext():
            if self._waiting.get(job.key) is not job:
                return False
            del self._waiting[job.key]
            return True

    def run_waiting(self) -> None:
        """Run the jobs that wait, between two steps of the one that is running; call this in the worker's thread only.

        A job whose key is that of a running one waits for its end.
        """
        while (job := self._next({running.key for running in self._running})) is not None:
            self._run(job)

    def close(self) -> None:
        """Cancel the running job, drop the others, and let the thread end."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            for running in self._running:
                running.cancel.set()
            self._changed.notify()

    def join(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def here(self) -> bool:
        """Whether the caller runs in this thread."""
        return current_thread() is self._thread

    def _restart_in_child(self) -> None:
        """Let the jobs that were running wait with the others, in a forked process: it has no thread of its parent."""
        self._thread = None
        self._running, self._waiting = [], {job.key: job for job in self._running} | self._waiting

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
            self.run_waiting()

    def _next(self, busy: Set[Hashable]) -> Job | None:
        """Take the first job that waits for none of the `busy` keys."""
        with self._changed:
            key = next((key for key in self._waiting if key not in busy), None)
            if key is None or self._closed:
                return None
            self._running.append(self._waiting.pop(key))
            return self._running[-1]

    def _run(self, job: Job) -> None:
        try:
            job.run(job)
        except BaseException as error:  # the thread must not end: other jobs wait for it
            traceback.print_exception(error)
        with self._changed:
            self._running.remove(job)


EXIT_TIMEOUT = 5.0  # seconds to wait for running jobs when Python exits: torch aborts the process if one still runs

_CONDITIONS: weakref.WeakSet[Condition] = weakref.WeakSet()
_ALL_WORKERS: weakref.WeakSet[Worker] = weakref.WeakSet()
_WORKERS: weakref.WeakKeyDictionary[Any, Worker] = weakref.WeakKeyDictionary()


def worker(subject: Any) -> Worker:
    """The worker of a subject; it ends when the subject is deleted."""
    if subject not in _WORKERS:
        new = _WORKERS.setdefault(subject, Worker())
        weakref.finalize(subject, new.close)
    return _WORKERS[subject]


def _restart_all_in_child() -> None:
    for condition in list(_CONDITIONS):
        Condition.__init__(condition, RLock())
    for each in list(_ALL_WORKERS):
        each._restart_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_all_in_child)


@atexit.register
def _close_all() -> None:
    workers = list(_WORKERS.values())
    for each in workers:
        each.close()
    for each in workers:
        each.join(EXIT_TIMEOUT)
