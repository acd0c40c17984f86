"""Servers of the browser tests stop with the tests and leave no process behind."""

import importlib.util
import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.browser import servers
from tests.browser.conftest import missing
from tests.browser.lab import ROOT, Lab

pytestmark = pytest.mark.full  # they start many servers, to test a tool of the other tests

ALONE = """
import sys, time
from pathlib import Path
from tests.browser.lab import Lab
lab = Lab(Path(sys.argv[1]))
lab.start()
print(lab.server.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def installed():
    if importlib.util.find_spec("jupyterlab") is None:
        missing("JupyterLab is not installed (pip install nbsal[lab])")


def kernel_of(lab):
    """A kernel that this server started."""
    lab.ask("kernels", "POST", {"name": "python3"})
    (kernel,) = [child for child in lab.server.children() if "ipykernel_launcher" in child.cmdline()]
    return kernel


@pytest.mark.parametrize("hangs", [False, True])
def test_a_server_that_is_stopped_leaves_no_kernel(tmp_path, hangs):
    lab = Lab(tmp_path)
    try:
        lab.start()
        kernel = kernel_of(lab)
        assert (
            os.getpgid(kernel.pid) == kernel.pid != os.getpgid(lab.server.pid)
        )  # no signal to the server's reaches it
        if hangs:
            lab.server.suspend()
    finally:
        lab.stop(1 if hangs else servers.PATIENCE)
    assert not lab.server.is_running() and not kernel.is_running()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_server_ends_with_tests_that_are_killed(tmp_path):
    command = [sys.executable, "-c", ALONE, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as tests:
        server = psutil.Process(int(tests.stdout.readline()))
        tests.send_signal(signal.SIGKILL)
        gone, left = psutil.wait_procs([server], timeout=30)
        for process in left:
            process.kill()
    assert gone and not left
