"""Servers that tests start; they stop with the tests, however these end, and leave no process behind."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]

# Runs a module; when the tests are gone, Linux ends it as one does by hand. A server's kernels end when it is gone.
TIED = f"""
import ctypes, runpy, sys
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, {int(signal.SIGTERM)})
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
PATIENCE = 15.0  # seconds for a server to stop its kernels


def start(module: str, *options: str, **settings) -> psutil.Popen:
    """Run a module as a server."""
    return psutil.Popen([sys.executable, "-c", TIED, module, *options], start_new_session=True, **settings)


def stop(server: psutil.Popen, patience: float = PATIENCE) -> None:
    """Ask a server to stop and to stop what it started; kill what is left: kernels are process groups of their own."""
    if server.poll() is not None:
        return
    started = server.children(recursive=True)
    server.terminate()
    try:
        server.wait(patience)
    except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
        server.kill()
        server.wait()
    for process in psutil.wait_procs(started, timeout=1)[1]:
        process.kill()
    psutil.wait_procs(started, timeout=5)


@contextmanager
def serving(module: str, *options: str, folder: Path) -> Iterator[str]:
    """The address of an app that a module serves from a folder; "PORT" in an option stands for a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    settings = {"HOME": str(folder), "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "HF_HUB_OFFLINE": "1"}
    arguments = [option.replace("PORT", port) for option in options]
    server = start(module, *arguments, cwd=folder, env=os.environ | settings)
    url, deadline = f"http://127.0.0.1:{port}/", time.monotonic() + 240
    try:
        while not _answers(url):
            assert server.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        yield url
    finally:
        stop(server)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=20).close()
    except OSError:
        return False
    return True
