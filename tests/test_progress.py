"""Progress reports and cancellation."""

import threading

import pytest

from nbsal.support.errors import Cancelled
from nbsal.support.progress import Meter


def test_reports_each_step_and_cancels_before_the_next():
    cancel, reports = threading.Event(), []
    with Meter(5, lambda *report: reports.append(report), cancel) as meter:
        meter.check()
        meter.step(2)
        part = meter.part(2, 10)
        part.check()
        cancel.set()
        for each in (meter, part):
            with pytest.raises(Cancelled):
                each.check()
    assert reports == [(2, 5)]


def test_a_bar_is_shown_for_long_calls_only(capsys):
    with Meter(3, progress=True) as meter:
        meter.step(3)
    assert capsys.readouterr().err == ""
    assert meter._bar.n == 3 and meter._bar.delay == 1.0


def test_smaller_steps_add_up_to_whole_steps():
    """Each whole step is reported once, and `reach` makes up for steps that a part left out."""
    reports = []
    with Meter(4, lambda *report: reports.append(report)) as meter:
        part = meter.part(2, 10)
        for _ in range(10):
            part.step()
        half = meter.part(1, 2)
        half.step()
        meter.reach(3)
        inner = meter.part(1, 1).part(1, 3)
        inner.step(2)
        assert reports[-1] == (3, 4)
        inner.reach(3)
    assert reports == [(1, 4), (2, 4), (3, 4), (4, 4)]
