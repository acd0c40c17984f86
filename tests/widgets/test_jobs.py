"""The worker of a model: jobs never overlap, the newest wins, cancelling reports what happened, and threads end."""

import gc
import threading

import pytest
import traitlets

from nbsal.widgets.base import View
from nbsal.widgets.page import jobs
from tests.test_interrupts import Lines


@pytest.fixture
def worker():
    new = jobs.Worker()
    yield new
    new.close()


def test_jobs_run_one_at_a_time_in_another_thread(worker):
    threads, done = [], threading.Event()
    worker.submit("a", lambda job: threads.append(threading.current_thread()))
    worker.submit("b", lambda job: (threads.append(threading.current_thread()), done.set()))
    assert done.wait(120)
    assert len(set(threads)) == 1 and threads[0] is not threading.current_thread()


def test_the_newest_of_a_key_wins(worker):
    started, go, done = threading.Event(), threading.Event(), threading.Event()
    ran = []

    def first(job):
        started.set()
        go.wait(120)
        ran.append(("first", job.cancel.is_set()))

    worker.submit("key", first)
    assert started.wait(120)
    waiting = [worker.submit("key", lambda job, i=i: (ran.append(i), done.set())) for i in range(5)]
    go.set()
    assert done.wait(120)
    assert ran == [("first", True), 4], "the running job was cancelled, those in between never ran"
    assert [job.cancel.is_set() for job in waiting] == [True] * 4 + [False]


def test_waiting_jobs_run_between_the_steps_of_a_long_one(worker):
    started, go, done = threading.Event(), threading.Event(), threading.Event()
    ran = []

    def long(job):
        started.set()
        go.wait(120)
        worker.run_waiting()
        ran.append(("long", job.cancel.is_set()))

    worker.submit("long", long)
    assert started.wait(120)
    worker.submit("long", lambda job: (ran.append("newer"), done.set()))
    worker.submit("short", lambda job: (worker.run_waiting(), ran.append("short")))
    go.set()
    assert done.wait(120)
    assert ran == ["short", ("long", True), "newer"], "a newer job of the same key waits for the end of the older"


def test_a_withdrawn_job_never_runs_and_a_running_one_is_cancelled(worker):
    started, go = threading.Event(), threading.Event()
    running = worker.submit("a", lambda job: (started.set(), go.wait(120)))
    assert started.wait(120)
    waiting = worker.submit("b", lambda job: pytest.fail("it was withdrawn"))
    assert worker.withdraw(waiting) and not worker.withdraw(running)
    assert running.cancel.is_set()
    go.set()


def test_a_worker_ends_with_its_subject():
    class Subject:
        pass

    subject = Subject()
    worker = jobs.worker(subject)
    assert jobs.worker(subject) is worker
    done = threading.Event()
    worker.submit("a", lambda job: done.set())
    assert done.wait(120)
    thread = worker._thread
    del subject
    gc.collect()
    thread.join(120)
    assert not thread.is_alive()


def test_a_job_that_raises_does_not_end_the_worker(worker, capsys):
    done = threading.Event()

    def interrupted(job):
        raise KeyboardInterrupt

    worker.submit("a", interrupted)
    worker.submit("b", lambda job: done.set())
    assert done.wait(120) and "KeyboardInterrupt" in capsys.readouterr().err


class InterruptedView(View):
    """A view whose computation may be interrupted."""

    inputs = ("text",)
    text = traitlets.Unicode("A joy.").tag(sync=True)

    def compute(self, inputs, job):
        if inputs["text"] == "interrupt":
            raise KeyboardInterrupt
        return inputs["text"]


def test_an_interrupt_on_the_worker_is_an_error_of_the_view(capsys):
    view = InterruptedView().wait(120)
    view.text = "interrupt"
    with pytest.raises(KeyboardInterrupt):
        view.wait(120)
    assert view.status == "error"
    view.text = "A bore."
    assert view.wait(120).result == "A bore." and view.status == "ready"
    view.close()


def is_locked(lock):
    """Whether a lock cannot be taken by another thread."""
    taken = []
    thread = threading.Thread(target=lambda: taken.append(lock.acquire(timeout=120)) or (taken[0] and lock.release()))
    thread.start()
    thread.join()
    return not taken[0]


@pytest.mark.parametrize("action", ["request", "cancel"])
def test_an_interrupt_at_any_line_of_a_cell_leaves_no_view_computing(action):
    view = InterruptedView().wait(120)
    lines = Lines()
    lines.run(lambda: getattr(view, action)())
    view.wait(120)
    for number in range(len(lines.executed)):
        Lines(number).run(lambda: getattr(view, action)())
        try:
            view.wait(120)
        except TimeoutError:
            pytest.fail(f"computes for ever after an interrupt at {lines.executed[number]}")
        assert view.status in ("ready", "cancelled")
        assert not is_locked(View._lock), f"locked after an interrupt at {lines.executed[number]}"
    view.text = "again"
    assert view.wait(120).result == "again"
    view.close()
