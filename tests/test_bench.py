"""The benchmarks: goals, tasks that cannot be run, agreement, and the counted lines of snippets."""

from importlib import import_module

import pytest

from tests.bench import gpu, jobs, measure, peers, snippets, table
from tests.bench.__main__ import BENCHES
from tests.bench.peers import body


def test_goals_are_compared_with_the_median():
    assert table.at_least(3, [1.0, 3.5, 4.0]) == {"goal": ">= 3", "met": "yes"}
    assert table.at_least(3, [1.0, 2.5, 4.0])["met"] == "no"
    assert table.at_most(50, 50.0, " ms") == {"goal": "<= 50 ms", "met": "yes"}
    row = table.Row("a | b", "1", ratio=table.spread([1.0, 3.0, 2.5]), **table.at_least(2, 2.5))
    assert table.markdown([row]).splitlines()[4] == "| a / b | 1 |  |  | 2.50 (1.00 to 3.00) | >= 2 | yes |"
    assert peers.lines(snippets.captum_gradxact) == 8
    assert all(callable(import_module(f"tests.bench.{name}").results) for name in BENCHES)


@pytest.mark.full
def test_what_cannot_run_gives_a_row_that_says_so(monkeypatch):
    def broken(model, tokenizer, texts):
        raise RuntimeError("no such model")

    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(peers, "CASES", peers.CASES[:1])
    monkeypatch.setattr(peers, "PACKAGES", {"captum": "nowhere_to_be_found"})
    rows = [*measure.run_alone("nothing", 1, True), *gpu.results(1, True), *peers.results(1, True)]
    rows.append(peers.compare_case(peers.Case("captum", "nothing", broken, peers.GRADIENT), 1, 1))
    for row, reason in zip(rows, ("tests.bench.nothing", "CUDA", "nowhere_to_be_found", "no such model"), strict=True):
        assert reason in row.ours and not row.met


@pytest.mark.full
def test_agreement_tells_equal_methods_from_different_ones():
    model, tokenizer, texts = peers.load_case("demo/reviews", 2)
    encoded = peers.nbsal.load(model, tokenizer=tokenizer).encode(texts)
    theirs = snippets.captum_gradxact(model, tokenizer, texts)
    for method, equal in ((peers.GRADIENT, True), (peers.LIME, False)):
        case = peers.Case("captum", "", snippets.captum_gradxact, method)
        agreement = peers.agreement(case, encoded, theirs, snippets.ours(method)(model, tokenizer, texts))
        assert (float(agreement.split()[-1]) < 1e-4) == equal


@pytest.mark.full
def test_the_jobs_are_done_with_ours_and_fail_without_a_tool(monkeypatch):
    monkeypatch.setattr(jobs, "JOBS", ["why_nbsal", "why_none", "source_nbsal"])
    monkeypatch.setattr(jobs, "why_none", lambda text: __import__("nowhere_to_be_found"), raising=False)
    monkeypatch.setattr(
        jobs, "body", lambda work: "import nowhere_to_be_found" if work is jobs.why_none else body(work)
    )
    monkeypatch.setattr(jobs, "lines", lambda work: 1)
    decided, missing, replied = jobs.results(quick=True)
    assert "it would be negative" in decided.work and "depends on document" in replied.work
    assert "fails" in missing.peer and not missing.ours
