"""One worker: nothing overlaps, the newest request wins, cancel is honest, and threads end."""

import gc
import subprocess
import sys
import threading

import pytest

from nbsal.widgets import jobs


@pytest.fixture
def worker():
    made = jobs.Worker()
    yield made
    made.close()


def test_jobs_run_one_at_a_time_elsewhere(worker):
    seen, done = [], threading.Event()
    worker.submit("a", lambda job: seen.append(threading.current_thread()))
    worker.submit("b", lambda job: (seen.append(threading.current_thread()), done.set()))
    assert done.wait(5)
    assert len(set(seen)) == 1 and seen[0] is not threading.current_thread()


def test_the_newest_of_a_key_wins(worker):
    started, go, done = threading.Event(), threading.Event(), threading.Event()
    ran = []

    def first(job):
        started.set()
        go.wait(5)
        ran.append(("first", job.cancel.is_set()))

    worker.submit("key", first)
    assert started.wait(5)
    waiting = [worker.submit("key", lambda job, i=i: (ran.append(i), done.set())) for i in range(5)]
    go.set()
    assert done.wait(5)
    assert ran == [("first", True), 4], "the running job was told, those in between never ran"
    assert [job.cancel.is_set() for job in waiting] == [True] * 4 + [False]


def test_keys_do_not_starve_each_other(worker):
    started, go, done = threading.Event(), threading.Event(), threading.Event()
    ran = []
    worker.submit("block", lambda job: (started.set(), go.wait(5)))
    assert started.wait(5)
    worker.submit("a", lambda job: ran.append("a0"))
    worker.submit("b", lambda job: (ran.append("b"), done.set()))
    worker.submit("a", lambda job: ran.append("a1"))
    go.set()
    assert done.wait(5)
    assert ran == ["a1", "b"]


def test_a_withdrawn_job_never_runs_and_a_running_one_is_told(worker):
    started, go = threading.Event(), threading.Event()
    running = worker.submit("a", lambda job: (started.set(), go.wait(5)))
    assert started.wait(5)
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
    assert done.wait(5)
    thread = worker._thread
    del subject
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_python_ends_under_a_running_job():
    """Left running, the job's thread would have torch abort the process."""
    code = (
        "import nbsal, time; explain = nbsal.Explainer(nbsal.load('demo/reviews'), 'shapley', samples=2000);"
        "view = nbsal.widgets.Highlight(explain, text='a film ' * 20);"
        "exec('while view.progress is None: time.sleep(0.05)'); print(view.status)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, "computing", "")
