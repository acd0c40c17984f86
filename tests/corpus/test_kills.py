"""Runs that are killed and resumed."""

import pytest

from tests import zoo
from tests.answers import writers
from tests.corpus import kills


@pytest.mark.some(1)
@pytest.mark.parametrize(("replies", "times"), [(False, 4), (True, 1), pytest.param(False, 50, marks=pytest.mark.full)])
def test_a_run_that_is_killed_repeatedly_ends_with_the_same_files(checkpoints, tmp_path, replies, times):
    checkpoint = tmp_path / "writer" if replies else zoo.save(checkpoints, "bert", "sequence")
    if replies:
        subject = writers.load()
        for part in (subject.model, subject.tokenizer):
            part.save_pretrained(checkpoint)
    counts, same = kills.killed(kills.Runs(checkpoint, replies), tmp_path, times)
    assert same
    assert counts == sorted(counts) and any(0 < count < kills.ROWS // kills.SHARD for count in counts), counts
