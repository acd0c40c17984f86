"""Fixtures shared by all tests; a laptop's two cores are enough."""

import gc
import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side, and so do the kernels of notebooks
# Processes that tests start, kernels of notebooks too, reach this machine alone.
OFFLINE = Path(__file__).parent / "offline"
if str(OFFLINE) not in os.environ.get("PYTHONPATH", ""):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(OFFLINE), os.environ.get("PYTHONPATH")]))

collect_ignore = ["offline"]  # whoever imports it has no network

import pytest
import torch
import transformers

import nbsal
from tests import zoo

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
warnings.filterwarnings("ignore", module="transformers")


@pytest.fixture(scope="module", autouse=True)
def let_go():
    """Models are large and lie in cycles, and ipywidgets keeps every view: both go after each file of tests."""
    yield
    if "ipywidgets" in sys.modules:
        sys.modules["ipywidgets"].Widget.close_all()
    gc.collect()


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> Path:
    """Where the tiny models' checkpoints lie."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="session")
def load(checkpoints):
    """load(architecture, head) -> a Subject, through a saved checkpoint and with its LM where it has one."""

    def made(name: str, head: str = "sequence", dtype: str = "float64", decoding: bool = True, **settings):
        lm = None
        if decoding and head != "causal":
            lm = zoo.save(checkpoints, name, zoo.lm_head(name), seed=1)
        return nbsal.load(zoo.save(checkpoints, name, head, **settings), lm=lm, dtype=dtype)

    return made


@pytest.fixture(scope="session")
def reviews():
    """The embedded review classifier."""
    return nbsal.load("demo/reviews")


@pytest.fixture
def forwards(monkeypatch):
    """How often a model ran."""
    seen = []
    plain = nbsal.Subject.logits
    monkeypatch.setattr(nbsal.Subject, "logits", lambda self, inputs: seen.append(1) or plain(self, inputs))
    return seen
