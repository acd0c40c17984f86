"""A Dask cluster of two processes on this machine: the same files, whoever is killed."""

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


@pytest.fixture(scope="module")
def whole(explain, texts, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    corpus.explain(explain, texts, out, shard_rows=4, progress=False)
    return out


def test_a_cluster_writes_what_one_process_writes(client, explain, texts, whole, tmp_path):
    before = set(client.run(os.getpid).values())
    seen = []
    out = tmp_path / "out"
    opened = corpus.explain(explain, texts, out, client=client, shard_rows=4, progress=lambda *told: seen.append(told))
    assert opened.complete and files(out) == files(whole)
    assert seen[-1] == (len(texts), len(texts)) and len(seen) > 5
    assert set(client.run(os.getpid).values()) == before and os.getpid() not in before
    # What was loaded for the run is let go.
    assert not any(client.run(lambda dask_worker: [n for n in dask_worker.plugins if "nbsal" in n]).values())


def test_the_command_takes_the_address_of_a_cluster(client, checkpoints, texts, whole, tmp_path, monkeypatch):
    asked, shards = [], cluster.shards
    monkeypatch.setattr(cluster, "shards", lambda *given: asked.append(given[-1].scheduler.address) or shards(*given))
    source, out = tmp_path / "texts.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    model = ["--model", str(zoo.save(checkpoints, "bert", "sequence")), "--method", "gradcam", "--shard-rows", "4"]
    address = client.scheduler.address
    assert cli.main(["corpus", str(source), str(out), *model, "--scheduler", address]) == 0 and asked == [address]
    assert corpus.open(out).to_frame(["text", "prediction"]).equals(corpus.open(whole).to_frame(["text", "prediction"]))


def test_work_that_is_lost_with_a_worker_is_done_elsewhere(client, explain, texts, whole, tmp_path):
    victim, killed = next(iter(client.run(os.getpid).values())), []

    def progress(done, total):
        if not killed:
            os.kill(victim, signal.SIGKILL)
            killed.append(done)

    out = tmp_path / "out"
    opened = corpus.explain(explain, texts, out, client=client, shard_rows=4, progress=progress)
    assert killed[0] < len(texts) and opened.complete and files(out) == files(whole)
    assert victim not in client.run(os.getpid).values()
