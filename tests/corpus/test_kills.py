"""Runs that are killed and resumed."""

import pytest

from tests import zoo
from tests.answers import writers
from tests.corpus import kills


@pytest.mark.parametrize("times", [4, pytest.param(50, marks=pytest.mark.full)])
def test_a_run_that_is_killed_repeatedly_ends_with_the_same_files(checkpoints, tmp_path, times):
    runs = kills.Runs(zoo.save(checkpoints, "bert", "sequence"))
    counts, same = kills.killed(runs, tmp_path, times)
    assert same
    assert counts == sorted(counts) and any(0 < count < kills.ROWS // kills.SHARD for count in counts), counts


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.full)])
def test_a_run_over_replies_that_is_killed_ends_with_the_same_files(tmp_path, times):
    subject = writers.load()
    for part in (subject.model, subject.tokenizer):
        part.save_pretrained(tmp_path / "writer")
    runs = kills.Runs(tmp_path / "writer", kills.run_replies)
    counts, same = kills.killed(runs, tmp_path, times)
    assert same
    assert counts == sorted(counts) and any(0 < count < kills.ROWS // kills.SHARD for count in counts), counts
