"""Run jobs: the one loop in which models are locked, run, retried in halves when memory runs out, and reported."""

from collections.abc import Callable, Iterable, Sequence

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
    return trace.record(job.subject, job.rows, job.targets, job.needs, job.layers, job.by_block)


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
        _run_in_halves(job, use, part, record)
        part.reach(1)


def _run_in_halves(job: TraceJob, use: Use, meter: Meter, record: Callable[[TraceJob], Trace]) -> None:
    size = len(job.rows)

    def run_part(numbers: Sequence[int]) -> None:
        meter.check()
        meter.reach(numbers[0] / size)
        part, names = job.part(numbers), meter.part(len(numbers) / size, len(job.names))
        for attempt in range(ATTEMPTS):
            try:
                job.subject.exclusively(lambda: _hand_over(part, use, names, record(part)))
                return
            except ModelError as error:
                if error.part != "weights" or attempt == ATTEMPTS - 1:
                    raise

    memory.run_in_halves(range(size), run_part)


def _hand_over(job: TraceJob, use: Use, meter: Meter, recorded: Trace) -> None:
    recorded.meter = meter
    for number, name in enumerate(job.names, 1):
        meter.check()
        use(job, name, recorded)
        meter.reach(number)
