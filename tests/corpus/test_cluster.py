"""A Dask cluster of two processes writes the same files as one process, even if a worker is killed."""

import json
import os
import signal

import pytest
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError

import nbsal
from nbsal import cli, corpus
from nbsal.corpus import cluster
from nbsal.support.errors import ClusterError
from tests import zoo
from tests.answers import writers
from tests.corpus.kills import files

CLUSTER = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}


def test_the_command_takes_the_address_of_a_cluster(checkpoints, texts, whole, tmp_path, monkeypatch):
    addresses, run_shards = [], cluster.run_shards
    monkeypatch.setattr(
        cluster,
        "run_shards",
        lambda *args, client: addresses.append(client.scheduler.address) or run_shards(*args, client=client),
    )
    source, out = tmp_path / "texts.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    model = ["--model", str(zoo.save(checkpoints, "bert", "sequence")), "--method", "gradcam", "--shard-rows", "8"]
    with LocalCluster(**CLUSTER, processes=False, protocol="tcp://") as threads:  # in this process, which is quicker
        address = threads.scheduler_address
        assert cli.main(["corpus", str(source), str(out), *model, "--scheduler", address]) == 0
    assert addresses == [address]
    columns = ["text", "prediction"]
    assert corpus.open(out).to_frame(columns).equals(corpus.open(whole).to_frame(columns))


def test_replies_are_those_of_one_process(tmp_path):
    writer = nbsal.Explainer(writers.load(), "gae")
    chats = [[{"role": "user", "content": text}] for text in ("Who?", "", "Who wrote the book?")]
    settings = {"shard_rows": 1, "max_new_tokens": 3, "do_sample": True, "seed": 1, "progress": False}
    local = corpus.explain(writer, chats, tmp_path / "local", **settings)
    with LocalCluster(**CLUSTER, processes=False, protocol="tcp://") as threads, Client(threads) as client:
        remote = corpus.explain(writer, chats, tmp_path / "remote", client=client, **settings)
    assert isinstance(remote, corpus.Replies) and len(remote) == len(local) > 0
    assert files(tmp_path / "local") == files(tmp_path / "remote")


@pytest.mark.full
def test_shards_of_a_lost_worker_are_run_elsewhere(explain, texts, whole, tmp_path):
    steps, out = [], tmp_path / "out"

    def progress(*step):
        if not steps:
            os.kill(victim, signal.SIGKILL)
        steps.append(step)

    with LocalCluster(**CLUSTER, processes=True) as processes, Client(processes) as client:
        victim = next(iter(client.run(os.getpid).values()))
        explained = corpus.explain(explain, texts, out, client=client, shard_rows=8, progress=progress)
        assert victim not in client.run(os.getpid).values()
        # The plugin with the model is removed from the workers.
        assert not any(client.run(lambda dask_worker: [n for n in dask_worker.plugins if "nbsal" in n]).values())
    assert explained.complete and files(out) == files(whole)
    assert steps[0][0] < len(texts) and steps[-1] == (len(texts), len(texts)) and len(steps) >= 5


class LosesWorkers:
    """A client that loses a worker in each of its first attempts to send the model."""

    def __init__(self, client, losses):
        self.client, self.losses = client, losses

    def __getattr__(self, name):
        return getattr(self.client, name)

    def register_plugin(self, plugin):
        self.losses -= 1
        if self.losses >= 0:
            raise CommClosedError("Stream is closed")
        self.client.register_plugin(plugin)


def test_a_worker_that_is_lost_while_the_model_is_sent_is_no_fault_of_the_folder(explain, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "LOST_INTERVAL", 0)
    with LocalCluster(**CLUSTER, processes=False, protocol="tcp://") as threads, Client(threads) as client:
        settings = {"client": LosesWorkers(client, 2), "progress": False}
        assert corpus.explain(explain, texts[:4], tmp_path / "out", **settings).complete
        settings["client"].losses = 100
        with pytest.raises(ClusterError):
            corpus.explain(explain, texts[:4], tmp_path / "other", **settings)
