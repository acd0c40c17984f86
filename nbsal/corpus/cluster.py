"""Cluster: shards as tasks of an existing Dask cluster; each worker loads the model once and writes its shards."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from nbsal.corpus.manifest import Shard
from nbsal.corpus.plugin import ModelPlugin
from nbsal.corpus.shards import ShardTask
from nbsal.corpus.storage import Storage
from nbsal.progress import Meter

if TYPE_CHECKING:
    from distributed import Client

RETRIES = 3  # of a shard whose task raised; those of lost workers are not counted among them
AHEAD = 2  # shards that wait for each thread of the cluster, so that none is idle
PATIENCE = 0.5  # seconds between looks at `cancel`


def shards(
    work: ShardTask, storage: Storage, jobs: Iterable[tuple[int, list[Any]]], meter: Meter, client: "Client"
) -> Iterator[tuple[int, Shard]]:
    """Shards in the order they are done, a few for each thread under way at a time."""
    from distributed import wait

    name = f"nbsal-{storage.place}"
    client.register_plugin(ModelPlugin(name, work))
    waiting, running = iter(jobs), dict[Any, int]()
    try:
        while True:
            for number, values in islice(waiting, max(0, _width(client) - len(running))):
                task = client.submit(_shard, name, storage.place, number, values, retries=RETRIES, pure=False)
                running[task] = len(values)
            if not running:
                return
            try:
                done = wait(list(running), timeout=PATIENCE, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                done = set()
            meter.check()
            for task in done:
                meter.step(running.pop(task))
                yield task.result()
    finally:
        client.cancel(list(running))
        client.unregister_worker_plugin(name)


def _width(client: "Client") -> int:
    """How many shards may be under way; workers come and go."""
    threads: int = sum(client.ncores().values())
    return AHEAD * max(1, threads)


def _shard(name: str, place: str, number: int, values: Sequence[Any]) -> tuple[int, Shard]:
    """The task: one shard by the explainers that its worker holds."""
    from distributed import get_worker

    return number, get_worker().plugins[name].work.shard(Storage(place), number, values, Meter(None))
