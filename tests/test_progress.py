"""Progress and cancel, the one protocol."""

import threading

import pytest

from nbsal.errors import Cancelled
from nbsal.progress import Meter


@pytest.mark.parametrize("total", [2, None])
def test_reports_each_step_with_its_total(total):
    seen = []
    with Meter(total, lambda *step: seen.append(step)) as meter:
        meter.step()
        meter.step()
    assert seen == [(1, total), (2, total)]


def test_cancel_is_seen_before_the_next_step():
    cancel = threading.Event()
    with Meter(5, cancel=cancel) as meter:
        meter.check()
        meter.step(2)
        cancel.set()
        with pytest.raises(Cancelled, match="after 2 of 5"):
            meter.check()


def test_a_bar_shows_for_long_work_only(capsys):
    with Meter(3, progress=True) as meter:
        meter.step(3)
    assert capsys.readouterr().err == ""
    assert meter._bar.n == 3 and meter._bar.delay == 1.0


def test_parts_make_up_whole_steps():
    """Smaller steps are told as whole ones, each once; what a part left untold is made up for."""
    seen = []
    with Meter(4, lambda *at: seen.append(at)) as meter:
        part = meter.part(2, 10)
        for _ in range(10):
            part.step()
        half = meter.part(1, 2)
        half.step()
        meter.reach(3)
        inner = meter.part(1, 1).part(1, 3)
        inner.step(2)
        assert seen[-1] == (3, 4)
        inner.reach(3)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_parts_stop_with_the_whole():
    cancel = threading.Event()
    part = Meter(4, cancel=cancel).part(2, 10)
    part.check()
    cancel.set()
    with pytest.raises(Cancelled):
        part.check()
