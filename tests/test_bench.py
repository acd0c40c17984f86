"""The benchmarks' table: goals, what could not be run, and snippets that are counted."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.bench import gpu, measure, peers, snippets, table
from tests.bench.__main__ import BENCHES

ROOT = Path(__file__).parents[1]


def test_goals_are_judged_by_the_median():
    assert table.at_least(3, [1.0, 3.5, 4.0]) == {"goal": ">= 3", "met": "yes"}
    assert table.at_least(3, [1.0, 2.5, 4.0])["met"] == "no"
    assert table.at_most(50, 50.0, " ms") == {"goal": "<= 50 ms", "met": "yes"}
    assert table.at_most(50, [10.0, 51.0, 99.0])["met"] == "no"


def test_a_row_is_a_line_of_the_table():
    lines = table.markdown([table.Row("a | b", "1", ratio=table.spread([1.0, 3.0, 2.5]), **table.at_least(2, 2.5))])
    assert lines.splitlines()[0] == "| work | ours | peer | floor | ratio | goal | met |"
    assert lines.splitlines()[2] == "| a / b | 1 |  |  | 2.50 (1.00 to 3.00) | >= 2 | yes |"


@pytest.mark.parametrize("name", BENCHES)
def test_every_benchmark_gives_rows(name):
    assert callable(import_module(f"tests.bench.{name}").results)


def test_what_fails_is_a_row_that_says_why():
    (row,) = measure.alone("nothing", 1, True)
    assert row.work == "nothing" and "No module named 'tests.bench.nothing'" in row.ours and not row.met


def test_a_benchmark_runs_from_the_command(tmp_path):
    """Without a Chromium on the PATH there is nothing to measure, and a row of the table says so."""
    command = [sys.executable, "-m", "tests.bench", "--quick", "--rounds", "1", "--only", "pages"]
    environment = os.environ | {"PATH": str(tmp_path)}
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert "not run: there is no Chromium on the PATH" in found.stdout.splitlines()[2]


def test_without_a_gpu_a_row_says_so(monkeypatch):
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    (row,) = gpu.results(1, True)
    assert row.ours == "not run: torch finds no CUDA device" and not row.met


def test_methods_that_differ_elsewhere_are_named(monkeypatch, reviews):
    news = gpu.nbsal.load("demo/news")
    monkeypatch.setattr(gpu.catalogue, "names", lambda: ["gradcam", "mask-lrp@nowhere"])
    monkeypatch.setattr(gpu.nbsal, "load", lambda name, device: reviews)
    (row,) = gpu.methods("cpu", False)
    assert row.ours.startswith("0.0e+00, 1 of 2 within 0.0001; mask-lrp@nowhere: UnknownName") and row.met == "no"
    monkeypatch.setattr(gpu.nbsal, "load", lambda name, device: reviews if device == "cpu" else news)
    (row,) = gpu.methods("cuda", False)
    assert "0 of 2 within 0.0001; gradcam: " in row.ours


def test_a_tool_that_is_not_there_is_a_row_that_says_so(monkeypatch):
    monkeypatch.setattr(peers, "CASES", peers.CASES[:1])
    monkeypatch.setattr(peers, "PACKAGES", {"captum": "nowhere_to_be_found"})
    (row,) = peers.results(1, True)
    assert row.work == "captum" and "does not import" in row.ours


def test_a_tool_that_fails_is_a_row_with_its_error():
    def broken(model, tokenizer, texts):
        raise RuntimeError("no such model")

    case = peers.Case("captum", "nothing", broken, peers.GRADIENT)
    assert "captum raises RuntimeError: no such model" in peers.compared(case, 1, 1).ours


def test_captum_agrees_and_a_method_of_another_meaning_does_not():
    model, tokenizer, texts = peers.material("demo/reviews", 2)
    same, other = (peers.Case("captum", "", snippets.captum_gradxact, m) for m in (peers.GRADIENT, peers.LIME))
    assert float(peers.agreement(same, model, tokenizer, texts).split()[-1]) < 1e-4
    assert float(peers.agreement(other, model, tokenizer, texts).split()[-1]) > 0.1


def test_lines_are_those_of_the_body():
    assert peers.lines(snippets.captum_gradxact) == 8
    assert peers.lines(snippets.ours(peers.GRADIENT)) == 3
