"""Servers that tests start; they stop with the tests, however these end, and leave no process behind."""

import signal
import subprocess
import sys

import psutil

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
