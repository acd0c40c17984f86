"""The cache of a function: an edited one is called anew, the same one is not, and what has no digest is refused."""

import re
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest

import nbsal
from nbsal.model.served.code_digest import digest_of
from tests.cases import cases
from tests.raising import refuses

PROMPT, REPLY = "One lives in Oslo. Two lives in Rouen. Where does One live?", " In Oslo"


def cell(source, **names):
    """What a notebook has after a cell was run: a function `f`."""
    names = {"__name__": "__main__", "np": np, "re": re, "partial": partial} | names
    exec(compile(source, "<cell>", "exec"), names)
    return names["f"]


def value_of(function, path, **settings):
    """The first log-probability that comes through the cache."""
    subject = nbsal.load(nbsal.Endpoint(function, cache=path, **settings))
    return nbsal.answer(subject, PROMPT, REPLY, progress=False, check=False).statistics.logprob[0]


EDITS = [
    ("f = lambda pairs: [[-0.1] * 2 for _ in pairs]", "-0.1", "-7"),
    ("def f(pairs):\n    return [[-1.0, -2.0] for _ in pairs]", "-1.0", "-7.0"),
    ("low = -1\ndef f(pairs):\n    return [[low, -2] for _ in pairs]", "-1", "-7"),
    ("def g():\n    return -1\ndef f(pairs):\n    return [[g(), -2] for _ in pairs]", "-1", "-7"),
    ("def h(x):\n    return lambda pairs: [[x, -2] for _ in pairs]\nf = h(-1)", "-1", "-7"),
    ("def f(pairs, x=-1):\n    return [[x, -2] for _ in pairs]", "-1", "-7"),
    ("table = {'a': [-1, -2]}\ndef f(pairs):\n    return [table['a'] for _ in pairs]", "-1", "-7"),
    ("table = np.array([-1, -2])\ndef f(pairs):\n    return [table for _ in pairs]", "-1", "-7"),
    ("def g(x, pairs):\n    return [[x, -2] for _ in pairs]\nf = partial(g, -1)", "-1", "-7"),
    ("class F:\n    def __init__(self, x):\n        self.x = x\n    def __call__(self, pairs):\n"
     "        return [[self.x, -2] for _ in pairs]\nf = F(-1)", "-1", "-7"),
    ("class F:\n    def __call__(self, pairs):\n        return [[-1, -2] for _ in pairs]\nf = F()", "-1", "-7"),
    ("class F:\n    x = -1\n    def ask(self, pairs):\n        return [[self.x, -2] for _ in pairs]\nf = F().ask",
     "-1", "-7"),
]  # fmt: skip


@cases("source, old, new", EDITS)
def test_an_edited_function_is_called_anew(source, old, new, tmp_path):
    for settings in ({}, {"model": "named"}):
        path = tmp_path / f"calls{len(settings)}"
        for text in (source, source.replace(old, new), source, f"# a comment\n{source}"):
            expected = float(new if text not in (source, f"# a comment\n{source}") else old)
            assert value_of(cell(text), path, **settings) == expected
    assert digest_of(cell(source)) == digest_of(cell(f"\n{source}  # again"))
    assert digest_of(lambda a, b: a + b) != digest_of(lambda a, b: a - b)


def test_the_same_cell_hits_the_cache_though_it_keeps_a_record(tmp_path):
    source = (
        "n, seen, log = 0, set(), []\n"
        "def f(pairs):\n    global n\n    n += len(pairs)\n    seen.add(1)\n    log.append(pairs)\n"
        "    return [[-1.0, -2.0] for _ in pairs]"
    )
    names = [cell(source).__globals__ for _ in range(2)]
    for each in (names[0], names[0], names[1]):
        value_of(each["f"], tmp_path / "calls")
    assert names[0]["n"] > 0 and names[1]["n"] == 0


UNSTABLE = [
    ("def f(pairs):\n    with lock:\n        return [[-1.0, -2.0] for _ in pairs]", {"lock": threading.Lock()}),
    ("def f(pairs, it=iter([1])):\n    return [[-1.0, -2.0] for _ in pairs]", {}),
    ("def f(pairs):\n    return [[stream.x, -2.0] for _ in pairs]", {"stream": sys.stdout}),
]


@cases("source, names", UNSTABLE)
def test_values_without_a_digest_need_a_name(source, names, tmp_path):
    function = cell(source, **names)
    with refuses("model") as caught:
        nbsal.Endpoint(function, cache=tmp_path / "calls")
    assert "model=" in str(caught.value)
    nbsal.Endpoint(function)  # in memory, nothing outlives it
    nbsal.Endpoint(function, model="named 1", cache=tmp_path / "calls")
    assert digest_of(function)[1]


def test_digests_are_those_of_any_process():
    source = (
        "kinds = {'a', 'b', 'c'}\ndef f(pairs):\n    return [re.sub('x', 'y', k) for k in kinds if k in {'a', 'd'}]"
    )
    program = f"""
import re
from nbsal.model.served.code_digest import digest_of
{source}
print(digest_of(f)[0])
"""
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout for _ in range(2)]
    assert runs[0] == runs[1] and len(runs[0]) == 65


def test_a_helper_that_is_edited_later_counts_at_once(tmp_path):
    source = "def g():\n    return -1\ndef f(pairs):\n    return [[g(), -2] for _ in pairs]"
    function = cell(source)
    subject = nbsal.load(nbsal.Endpoint(function, cache=tmp_path / "calls"))
    first = nbsal.answer(subject, PROMPT, REPLY, progress=False, check=False).statistics.logprob[0]
    function.__globals__["g"] = lambda: -7
    again = nbsal.answer(subject, PROMPT, REPLY, progress=False, check=False).statistics.logprob[0]
    assert (first, again) == (-1, -7)


@pytest.mark.parametrize("kind", [np.array, list])
def test_results_of_functions_come_from_the_cache_as_they_were(kind, tmp_path):
    calls = []

    def classify(texts):
        calls.append(len(texts))
        return kind([[0.25, 0.75]] * len(texts))

    for sent in (None, 0):
        calls.clear()
        service = nbsal.Endpoint(classify, cache=tmp_path / "calls", budget=20).classifier()
        assert nbsal.Explainer(nbsal.load(service), "occlusion")("A warm film.").confidence == pytest.approx(0.75)
        assert sent is None or sum(calls) == sent
