"""Fixtures shared by all tests."""

import copy
import os
import sys
import warnings
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("NBSAL_SIZE", "2")  # two texts in a notebook show that it runs; the published outputs are of more
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests and kernels run in parallel processes
# Many tests start processes, each of which would otherwise compile torch and transformers: 7 s more.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("MALLOC_ARENA_MAX", "1")  # with an arena for each thread, glibc returns less memory to the system
# Processes that tests start, kernels included, can connect to this machine only.
OFFLINE = Path(__file__).parent / "offline"
if str(OFFLINE) not in os.environ.get("PYTHONPATH", ""):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(OFFLINE), os.environ.get("PYTHONPATH")]))

collect_ignore = ["data", "offline"]  # importing these would register a method, and cut this process off the network
collect_ignore_glob = ["bench/features/probe_*.py"]  # each needs its tool

import pytest

import nbsal
from tests import covering, real

warnings.filterwarnings("ignore", module="transformers")


def pytest_configure(config):
    """Prepare a process that runs tests; one that hands them to workers (`-n`) is quicker without torch.

    Memory is freed after doctests of the package too, which see no fixture of this folder.
    """
    if config.getoption("numprocesses", None):
        return
    import torch
    import transformers

    from tests import memory

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    config.pluginmanager.register(memory)


def pytest_report_header():
    """Say which notebook is left out, and why."""
    lacking = real.missing(*real.PACKAGES)
    return f"notebooks/{real.NOTEBOOK} is left out: it {real.REASON} ({', '.join(lacking)})" if lacking else ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Run a covering array of tests with several lists of parameters, and some cells of tests that are marked so."""
    if real.missing(*real.PACKAGES):
        items[:] = [item for item in items if item.path.name != real.NOTEBOOK]
    tests = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("full"):  # such a cell would stand for others, and not run
            tests[item.nodeid.partition("[")[0]].append(item)
    for cells in tests.values():
        if len(list(cells[0].iter_markers("parametrize"))) > 1:
            chosen = covering.array([_values(item) for item in cells])
            cells = _split(cells, chosen)
        if mark := cells[0].get_closest_marker("some"):
            _split(cells, {index * len(cells) // mark.args[0] for index in range(mark.args[0])})


def _split(cells, chosen):
    """Mark the other cells of a test `full`, and return the chosen ones."""
    for index, item in enumerate(cells):
        if index not in chosen:
            item.add_marker(pytest.mark.full)
    return [cells[index] for index in sorted(chosen)]


def _values(item):
    """The parameters of a test, one entry for each list that they are from."""
    lists = [mark.args[0] for mark in item.iter_markers("parametrize")]
    names = [[name.strip() for name in part.split(",")] if isinstance(part, str) else part for part in lists]
    return tuple(tuple(id(item.callspec.params[name]) for name in part) for part in names)


@pytest.fixture(scope="session", autouse=True)
def no_machine_is_slow():
    """On a full machine views show no preview, check what they say, and are displayed with their result, as on others.

    Tests of what a slow machine does say so.
    """
    from nbsal.widgets import base, checked_view
    from nbsal.widgets.page import slow_methods

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow_methods, "SLOW", 1000.0)
        patch.setattr(slow_methods, "MANY", 10**6)
        patch.setattr(checked_view, "LONGEST", 1000.0)
        patch.setattr(base, "DISPLAY_TIMEOUT", 120.0)
        yield


@pytest.fixture(autouse=True)
def modes():
    """A test that leaves a mode of PyTorch active slows all tests after it, and makes them hold memory."""
    yield
    assert not sys.modules["torch"]._C._len_torch_function_stack()


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> Path:
    """The folder of the checkpoints of tiny models."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="session")
def load(checkpoints):
    """load(architecture, head) loads a tiny model from a saved checkpoint, with its LM head if it has one.

    Each is loaded once and then copied, which is ten times faster.
    """
    from tests import zoo

    subjects = {}

    def load_tiny(name: str, head: str = "sequence", dtype: str = "float64", decoding: bool = True, **settings):
        key = str((name, head, dtype, decoding, settings))
        if key not in subjects:
            lm = None
            if decoding and head != "causal":
                lm = zoo.save(checkpoints, name, zoo.lm_head(name), seed=1)
            subjects[key] = nbsal.load(zoo.save(checkpoints, name, head, **settings), lm=lm, dtype=dtype)
        original = subjects[key]
        return copy.deepcopy(original).record_source(original._source[1])

    return load_tiny


@pytest.fixture(scope="session")
def reviews():
    """The embedded classifier of reviews."""
    from tests import memory

    return memory.reviews()


@pytest.fixture(scope="session")
def small():
    """The embedded classifier of reviews that is twenty times as quick, for tests of what any model would do."""
    return nbsal.load("demo/reviews-small")


@pytest.fixture(scope="session")
def masked():
    """The small classifier with a head mask, which only the larger ones bring along."""
    subject = nbsal.load("demo/reviews-small")
    syntactic = {"nsubj": [[0, 1, 0, 0], [0] * 4, [0, 1, 0, 0]]}
    subject.mask = nbsal.heads.HeadMask([[0] * 4, [0, 0, 1, 0], [0] * 4], syntactic)
    return subject


@pytest.fixture
def forwards(monkeypatch):
    """A list that grows by one entry at each forward pass."""
    calls = []
    logits = nbsal.Subject.logits
    monkeypatch.setattr(nbsal.Subject, "logits", lambda self, inputs: calls.append(1) or logits(self, inputs))
    return calls
