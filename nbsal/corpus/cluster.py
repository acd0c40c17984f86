"""Shards as tasks of a Dask cluster: each worker loads the model once, explains shards and writes them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from nbsal.corpus.folder.manifest import Shard
from nbsal.corpus.folder.storage import Storage
from nbsal.corpus.shards import Task
from nbsal.support.progress import Meter

if TYPE_CHECKING:
    from distributed import Client

RETRIES = 3  # of a shard whose task raised an error; lost workers do not count
QUEUED_PER_THREAD = 2  # shards submitted for each thread of the cluster, so that none is idle
CANCEL_INTERVAL = 0.5  # seconds between checks of `cancel`


def run_shards(
    task: Task, storage: Storage, jobs: Iterable[tuple[int, list[Any]]], meter: Meter, client: "Client"
) -> Iterator[tuple[int, Shard]]:
    """Run the shards on the cluster, a few per thread at a time, and yield them as they finish."""
    from distributed import wait

    from nbsal.corpus.plugin import ModelPlugin  # imports distributed

    name = f"nbsal-{storage.location}"
    client.register_plugin(ModelPlugin(name, task))
    pending, running = iter(jobs), dict[Any, int]()
    try:
        while True:
            threads = max(1, sum(client.ncores().values()))  # their number may change during the run
            for number, values in islice(pending, max(0, QUEUED_PER_THREAD * threads - len(running))):
                future = client.submit(_run_shard, name, storage.location, number, values, retries=RETRIES, pure=False)
                running[future] = len(values)
            if not running:
                return
            try:
                done = wait(list(running), timeout=CANCEL_INTERVAL, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                done = set()
            meter.check()
            for future in done:
                meter.step(running.pop(future))
                yield future.result()
    finally:
        client.cancel(list(running))
        client.unregister_worker_plugin(name)


def _run_shard(name: str, location: str, number: int, values: Sequence[Any]) -> tuple[int, Shard]:
    """Run one shard on a worker, with the model that its plugin has loaded."""
    from distributed import get_worker

    return number, get_worker().plugins[name].task.run(Storage(location), number, values, Meter(None))
