"""Processes that try to take the lock of a folder at the same moment."""

import multiprocessing
import os
import socket
import warnings

from nbsal.corpus.storage import LOCK, Storage
from nbsal.errors import InputError

PROCESSES = 2
DEAD = f'{{"host": "{socket.gethostname()}", "pid": 1, "began": 0}}'.encode()


def attempt(base, rounds, start, end, outcomes):
    """Try to take the lock of each folder, and hold it until all processes have tried."""
    warnings.filterwarnings("ignore")
    for number in range(rounds):
        storage = Storage(f"{base}/{number}")
        start.wait(60)
        try:
            with storage.lock():
                outcomes.put((number, "locked"))
                end.wait(60)
        except InputError as error:
            outcomes.put((number, "refused" if error.argument == "out" else repr(error)))
            end.wait(60)
        except Exception as error:
            outcomes.put((number, repr(error)))
            end.wait(60)


def race(base, rounds, environment=(), dead=False):
    """The outcomes of each round, one for each process; `dead` leaves the lock of a dead process in each folder."""
    if dead:
        for number in range(rounds):
            Storage(f"{base}/{number}").write(LOCK, DEAD)
    context = multiprocessing.get_context("spawn")
    start, end, outcomes = context.Barrier(PROCESSES), context.Barrier(PROCESSES), context.Queue()
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        arguments = (base, rounds, start, end, outcomes)
        processes = [context.Process(target=attempt, args=arguments) for _ in range(PROCESSES)]
        for process in processes:
            process.start()
    finally:
        os.environ.clear()
        os.environ.update(before)
    results = [outcomes.get(timeout=120) for _ in range(PROCESSES * rounds)]
    for process in processes:
        process.join(60)
    return [sorted(outcome for at, outcome in results if at == number) for number in range(rounds)]
