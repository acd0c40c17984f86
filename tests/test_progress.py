"""Progress and cancel, the one protocol."""

import threading

import pytest

from nbsal.errors import Cancelled
from nbsal.progress import Meter, track


def test_reports_each_step_with_its_total():
    seen = []
    assert list(track([5, 6], progress=lambda done, total: seen.append((done, total)))) == [5, 6]
    assert seen == [(1, 2), (2, 2)]


def test_generators_have_no_total():
    seen = []
    list(track((i for i in "ab"), progress=lambda done, total: seen.append((done, total))))
    assert seen == [(1, None), (2, None)]


def test_cancel_is_seen_before_the_next_step():
    cancel, done = threading.Event(), []
    with pytest.raises(Cancelled, match="after 2 of 5"):
        for item in track(range(5), cancel=cancel):
            done.append(item)
            if item == 1:
                cancel.set()
    assert done == [0, 1]


def test_a_bar_shows_for_long_work_only(capsys):
    with Meter(3, progress=True) as meter:
        meter.step(3)
    assert capsys.readouterr().err == ""
    assert meter._bar.n == 3 and meter._bar.delay == 1.0
