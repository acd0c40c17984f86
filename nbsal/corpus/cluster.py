"""Shards as tasks of a Dask cluster: each worker loads the model once, explains shards and writes them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from time import sleep
from typing import TYPE_CHECKING, Any

from nbsal.corpus.folder.manifest import Shard
from nbsal.corpus.folder.storage import Storage
from nbsal.corpus.shards import Task
from nbsal.support.errors import ClusterError
from nbsal.support.progress import Meter

if TYPE_CHECKING:
    from distributed import Client

RETRIES = 3  # of a shard whose task raised an error, where lost workers do not count, and of sending the model
QUEUED_PER_THREAD = 2  # shards submitted for each thread of the cluster, so that none is idle
LOST_INTERVAL = 1.0  # seconds after which the scheduler knows that a worker is lost
CANCEL_INTERVAL = 0.5  # seconds between checks of `cancel`


def run_shards(
    task: Task, storage: Storage, jobs: Iterable[tuple[int, list[Any]]], meter: Meter, client: "Client"
) -> Iterator[tuple[int, Shard]]:
    """Run the shards on the cluster, a few per thread at a time, and yield them as they finish."""
    from distributed import wait

    from nbsal.corpus.plugin import ModelPlugin  # imports distributed

    name = f"nbsal-{storage.location}"
    _send_model(client, ModelPlugin(name, task))
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


def _send_model(client: "Client", plugin: Any) -> None:
    """Give every worker the model; the connection to one that is lost meanwhile breaks, and its successor gets it."""
    from distributed.comm import CommClosedError

    for attempt in range(1 + RETRIES):
        try:
            client.register_plugin(plugin)
        except CommClosedError as error:  # an OSError, which the folder would be blamed for
            if attempt == RETRIES:
                message = f"A Dask worker was lost whenever the model was sent ({error}): it may lack memory. Workers "
                message += "need room for the model. Call again to go on; finished shards are kept."
                raise ClusterError(message) from error
            sleep(LOST_INTERVAL)
        else:
            return


def _run_shard(name: str, location: str, number: int, values: Sequence[Any]) -> tuple[int, Shard]:
    """Run one shard on a worker, with the model that its plugin has loaded."""
    from distributed import get_worker

    return number, get_worker().plugins[name].task.run(Storage(location), number, values, Meter(None))
