"""Processes that share their imports, so that starting one is cheap; and processes that die."""

import multiprocessing
import os
import signal

IMPORTS = ["transformers.models.bert.modeling_bert", "nbsal.corpus", "pandas", "dask.system", "s3fs", "tests.zoo"]


def forkserver():
    """The context of processes that are forked from a server, which has imported what they need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTS)
    return context


def run_and_die(work):
    """Run a function in a forked process, which is killed after it."""
    if not (child := os.fork()):
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
