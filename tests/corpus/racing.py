"""Processes that try to take the lock of a folder at the same moment."""

import contextlib
import socket
import warnings

import fsspec

from nbsal.corpus.storage import LOCK, Storage
from tests.corpus.processes import forkserver

PROCESSES = 2
DEAD = f'{{"host": "{socket.gethostname()}", "pid": 1, "began": 0}}'.encode()


def attempt(base, rounds, options, start, end, outcomes):
    """Try to take the lock of each folder, and hold it until all processes have tried."""
    warnings.filterwarnings("ignore")
    fsspec.config.conf["s3"] = options
    for number in range(rounds):
        start.wait(60)
        lock, outcome = Storage(f"{base}/{number}").lock(), "locked"
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lock)
            except Exception as error:
                outcome = "refused" if getattr(error, "argument", "") == "out" else repr(error)
            outcomes.put((number, outcome))
            end.wait(60)


def race(base, rounds, options, dead=False):
    """The outcomes of each round, one for each process; `dead` leaves the lock of a dead process in each folder.

    `options` are those of clients of S3.
    """
    if dead:
        for number in range(rounds):
            Storage(f"{base}/{number}").write(LOCK, DEAD)
    context = forkserver()
    start, end, outcomes = context.Barrier(PROCESSES), context.Barrier(PROCESSES), context.Queue()
    arguments = (base, rounds, options, start, end, outcomes)
    processes = [context.Process(target=attempt, args=arguments) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    results = [outcomes.get(timeout=120) for _ in range(PROCESSES * rounds)]
    for process in processes:
        process.join(60)
    return [sorted(outcome for at, outcome in results if at == number) for number in range(rounds)]
