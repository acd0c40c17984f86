"""Runs that are killed, and what is left of them."""

from tests import zoo
from tests.corpus import kills


def test_a_run_that_is_killed_again_and_again_ends_as_if_it_never_was(checkpoints, tmp_path):
    runs = kills.Runs(zoo.save(checkpoints, "bert", "sequence"))
    listed, same = kills.killed(runs, tmp_path, times=4)
    assert same
    assert listed == sorted(listed) and any(0 < shards < kills.ROWS // kills.SHARD for shards in listed), listed
