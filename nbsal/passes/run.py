"""Run jobs: the one loop in which models are locked, run, retried in halves when memory runs out, and reported."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from nbsal.model.running import memory
from nbsal.passes import trace
from nbsal.passes.plan import TraceJob
from nbsal.passes.trace import Trace
from nbsal.support.errors import ModelError
from nbsal.support.progress import Meter

ATTEMPTS = 10  # at a job whose model is trained by another thread, which may write weights in the midst of it
Use = Callable[[TraceJob, str, Trace], object]


def record_job(job: TraceJob) -> Trace:
    """Record what the methods of a job read."""
    return trace.record_now(job.subject, job.rows, job.targets, job.needs, job.layers, job.by_block)


def run(jobs: Iterable[TraceJob], use: Use, meter: Meter, record: Callable[[TraceJob], Trace] = record_job) -> None:
    """Run each job, and call `use` with the job, each of its names and the trace, then release the trace.

    A job that does not fit into memory is run in halves. `meter` counts the work of the jobs.

    >>> import nbsal
    >>> from nbsal.passes.plan import plan
    >>> subject = nbsal.load("demo/reviews")
    >>> jobs = plan({"simple": nbsal.Simple()}, subject, subject.encode(["A joy.", "A bore."]), [None, None])
    >>> run(jobs, lambda job, name, trace: print(name, [decision.label for decision in trace.decisions]), Meter(2))
    simple ['positive', 'negative']
    """
    for job in jobs:
        part = meter.part(job.work, 1)
        memory.run_in_halves(range(len(job.rows)), partial(_run_part, job, use, part, record))
        part.reach(1)


def _run_part(
    job: TraceJob, use: Use, meter: Meter, record: Callable[[TraceJob], Trace], numbers: Sequence[int]
) -> None:
    """Run a job for some of its texts."""
    size = len(job.rows)
    meter.check()
    meter.reach(numbers[0] / size)
    part, names = job.part(numbers), meter.part(len(numbers) / size, len(job.names))
    for attempt in range(ATTEMPTS):
        try:
            job.subject.exclusively(partial(_record_and_use, part, use, names, record))
            return
        except ModelError as error:
            if error.part != "weights" or attempt == ATTEMPTS - 1:
                raise


def _record_and_use(job: TraceJob, use: Use, meter: Meter, record: Callable[[TraceJob], Trace]) -> None:
    recorded = record(job)
    recorded.meter = meter
    for number, name in enumerate(job.names, 1):
        meter.check()
        use(job, name, recorded)
        meter.reach(number)
