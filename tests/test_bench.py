"""The benchmarks: goals, tasks that cannot be run, and the counted lines of snippets."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.bench import gpu, measure, peers, snippets, table
from tests.bench.__main__ import BENCHES
from tests.cases import cases

ROOT = Path(__file__).parents[1]


def test_goals_are_compared_with_the_median():
    assert table.at_least(3, [1.0, 3.5, 4.0]) == {"goal": ">= 3", "met": "yes"}
    assert table.at_least(3, [1.0, 2.5, 4.0])["met"] == "no"
    assert table.at_most(50, 50.0, " ms") == {"goal": "<= 50 ms", "met": "yes"}
    assert table.at_most(50, [10.0, 51.0, 99.0])["met"] == "no"


def test_rows_are_formatted_as_markdown():
    lines = table.markdown([table.Row("a | b", "1", ratio=table.spread([1.0, 3.0, 2.5]), **table.at_least(2, 2.5))])
    assert "GFLOP/s" in lines.splitlines()[0]
    assert lines.splitlines()[2] == "| work | ours | peer | floor | ratio | goal | met |"
    assert lines.splitlines()[4] == "| a / b | 1 |  |  | 2.50 (1.00 to 3.00) | >= 2 | yes |"


@cases("name", BENCHES)
def test_every_benchmark_has_results(name):
    assert callable(import_module(f"tests.bench.{name}").results)


def test_a_benchmark_that_fails_gives_a_row_with_its_error():
    (row,) = measure.run_alone("nothing", 1, True)
    assert row.work == "nothing" and "tests.bench.nothing" in row.ours and not row.met


@pytest.mark.full
def test_benchmarks_run_from_the_command_line(tmp_path):
    """Without Chromium on the PATH there is nothing to measure, and a row of the table says so."""
    command = [sys.executable, "-m", "tests.bench", "--quick", "--rounds", "1", "--only", "pages"]
    environment = os.environ | {"PATH": str(tmp_path)}
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    row = result.stdout.splitlines()[4]
    assert "not run" in row and "Chromium" in row


def test_without_a_gpu_a_row_says_so(monkeypatch):
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    (row,) = gpu.results(1, True)
    assert row.ours.startswith("not run") and "CUDA" in row.ours and not row.met


def test_methods_with_different_scores_are_named(monkeypatch, reviews):
    news = gpu.nbsal.load("demo/news")
    monkeypatch.setattr(gpu.catalogue, "names", lambda: ["gradcam", "mask-lrp@nowhere"])
    monkeypatch.setattr(gpu.nbsal, "load", lambda name, device: reviews)
    (row,) = gpu.methods("cpu", False)
    assert row.ours.startswith("0.0e+00, 1 of 2 within 0.0001; mask-lrp@nowhere: UnknownName") and row.met == "no"
    monkeypatch.setattr(gpu.nbsal, "load", lambda name, device: reviews if device == "cpu" else news)
    (row,) = gpu.methods("cuda", False)
    assert "0 of 2 within 0.0001; gradcam: " in row.ours


def test_a_tool_that_is_not_installed_gives_a_row(monkeypatch):
    monkeypatch.setattr(peers, "CASES", peers.CASES[:1])
    monkeypatch.setattr(peers, "PACKAGES", {"captum": "nowhere_to_be_found"})
    (row,) = peers.results(1, True)
    assert row.work == "captum" and "nowhere_to_be_found" in row.ours and not row.met


def test_a_tool_that_fails_gives_a_row_with_its_error():
    def broken(model, tokenizer, texts):
        raise RuntimeError("no such model")

    case = peers.Case("captum", "nothing", broken, peers.GRADIENT)
    assert "RuntimeError: no such model" in peers.compare_case(case, 1, 1).ours


def test_agreement_tells_equal_methods_from_different_ones():
    model, tokenizer, texts = peers.load_case("demo/reviews", 2)
    encoded = peers.nbsal.load(model, tokenizer=tokenizer).encode(texts)
    theirs = snippets.captum_gradxact(model, tokenizer, texts)

    def difference(method):
        case = peers.Case("captum", "", snippets.captum_gradxact, method)
        return float(peers.agreement(case, encoded, theirs, snippets.ours(method)(model, tokenizer, texts)).split()[-1])

    assert difference(peers.GRADIENT) < 1e-4
    assert difference(peers.LIME) > 0.1


def test_rows_are_stored_with_their_processor(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "CASES", peers.CASES[:1])
    store = tmp_path / "peers.json"
    (row,) = peers.results(1, True, store=store)
    stored = json.loads(store.read_text())["captum"]
    assert "GFLOP/s" in stored["machine"]
    assert [entry["work"] for entry in stored["rows"]] == [row.work]


def test_only_the_lines_of_a_snippets_body_are_counted():
    assert peers.lines(snippets.captum_gradxact) == 8
    assert peers.lines(snippets.ours(peers.GRADIENT)) == 3
