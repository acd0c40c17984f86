"""A Dask cluster of two processes writes the same files as one process, even if a worker is killed."""

import json
import os
import signal

import pytest
from distributed import Client, LocalCluster

from nbsal import cli, corpus
from nbsal.corpus import cluster
from tests import zoo
from tests.corpus.kills import files


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**options, silence_logs=50) as processes, Client(processes) as client:
        yield client


@pytest.mark.full
def test_a_cluster_writes_the_same_files_as_one_process(client, explain, texts, whole, tmp_path):
    processes = set(client.run(os.getpid).values())
    steps, out = [], tmp_path / "out"
    options = {"client": client, "shard_rows": 8, "progress": lambda *step: steps.append(step)}
    explained = corpus.explain(explain, texts, out, **options)
    assert explained.complete and files(out) == files(whole)
    assert steps[-1] == (len(texts), len(texts)) and len(steps) >= 5
    assert set(client.run(os.getpid).values()) == processes and os.getpid() not in processes
    # The plugin with the model is removed from the workers.
    assert not any(client.run(lambda dask_worker: [n for n in dask_worker.plugins if "nbsal" in n]).values())


def test_the_command_takes_the_address_of_a_cluster(client, checkpoints, texts, whole, tmp_path, monkeypatch):
    addresses, run_shards = [], cluster.run_shards
    monkeypatch.setattr(
        cluster,
        "run_shards",
        lambda *args, client: addresses.append(client.scheduler.address) or run_shards(*args, client=client),
    )
    source, out = tmp_path / "texts.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    model = ["--model", str(zoo.save(checkpoints, "bert", "sequence")), "--method", "gradcam", "--shard-rows", "8"]
    address = client.scheduler.address
    assert cli.main(["corpus", str(source), str(out), *model, "--scheduler", address]) == 0 and addresses == [address]
    columns = ["text", "prediction"]
    assert corpus.open(out).to_frame(columns).equals(corpus.open(whole).to_frame(columns))


@pytest.mark.full
def test_shards_of_a_lost_worker_are_run_elsewhere(client, explain, texts, whole, tmp_path):
    victim, killed_after = next(iter(client.run(os.getpid).values())), []

    def progress(done, total):
        if not killed_after:
            os.kill(victim, signal.SIGKILL)
            killed_after.append(done)

    out = tmp_path / "out"
    explained = corpus.explain(explain, texts, out, client=client, shard_rows=8, progress=progress)
    assert killed_after[0] < len(texts) and explained.complete and files(out) == files(whole)
    assert victim not in client.run(os.getpid).values()
