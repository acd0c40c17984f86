"""Fixtures shared by all tests."""

import ctypes
import gc
import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests and kernels run in parallel processes
# Workers return freed tensors to the system, which glibc would otherwise keep for later allocations.
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "1000000")
os.environ.setdefault("MALLOC_ARENA_MAX", "1")
# Processes that tests start, kernels included, can connect to this machine only.
OFFLINE = Path(__file__).parent / "offline"
if str(OFFLINE) not in os.environ.get("PYTHONPATH", ""):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(OFFLINE), os.environ.get("PYTHONPATH")]))

collect_ignore = ["offline"]  # importing it would cut this process off the network

import psutil
import pytest
import torch
import transformers

import nbsal
from tests import zoo

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
warnings.filterwarnings("ignore", module="transformers")


SESSION_SUBJECTS: list[nbsal.Subject] = []
PROCESS = psutil.Process()


@pytest.fixture(autouse=True)
def collect_large_garbage():
    """Collect what a test leaves behind at once if it is large: most are models in reference cycles."""
    before = PROCESS.memory_info().rss
    yield
    if PROCESS.memory_info().rss - before > 50_000_000:
        gc.collect()


@pytest.fixture(scope="module", autouse=True)
def free_memory():
    """Collect models, which are in reference cycles, and close all widgets after each file of tests."""
    yield
    for subject in SESSION_SUBJECTS:
        subject._float64_copy = None
    if "ipywidgets" in sys.modules:
        sys.modules["ipywidgets"].Widget.close_all()
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc
        trim(0)


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> Path:
    """The folder of the checkpoints of tiny models."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="session")
def load(checkpoints):
    """load(architecture, head) loads a tiny model from a saved checkpoint, with its LM head if it has one."""

    def load_tiny(name: str, head: str = "sequence", dtype: str = "float64", decoding: bool = True, **settings):
        lm = None
        if decoding and head != "causal":
            lm = zoo.save(checkpoints, name, zoo.lm_head(name), seed=1)
        return nbsal.load(zoo.save(checkpoints, name, head, **settings), lm=lm, dtype=dtype)

    return load_tiny


@pytest.fixture(scope="session")
def reviews():
    """The embedded classifier of reviews."""
    SESSION_SUBJECTS.append(nbsal.load("demo/reviews"))
    return SESSION_SUBJECTS[-1]


@pytest.fixture
def forwards(monkeypatch):
    """A list that grows by one entry at each forward pass."""
    calls = []
    logits = nbsal.Subject.logits
    monkeypatch.setattr(nbsal.Subject, "logits", lambda self, inputs: calls.append(1) or logits(self, inputs))
    return calls
