"""Plugin: what loads the model once on every worker of a Dask cluster, those that join later too."""

import copy
from typing import Any

import torch
from distributed import WorkerPlugin

from nbsal.corpus.shards import ShardTask
from nbsal.explainer import Explainer
from nbsal.model.subject import Subject


class ModelPlugin(WorkerPlugin):  # type: ignore[misc, unused-ignore]
    """The work of a run, taken apart for the journey: a lock does not travel, and a device may be another's."""

    def __init__(self, name: str, work: ShardTask) -> None:
        subject = next(iter(work.explainers.values())).subject
        self.name = name
        self.work: ShardTask | None = None
        self._model = subject.model if subject.device.type == "cpu" else copy.deepcopy(subject.model).cpu()
        head = subject._lm_head
        self._about = {
            "tokenizer": subject.tokenizer,
            "name": subject.name,
            "labels": subject.labels,
            "default_layer": subject.default_layer,
            "mask": subject.mask,
            "language_head": head and head.to(torch.device("cpu"), subject.dtype),
        }
        self._methods = {name: (explain.method, explain.long) for name, explain in work.explainers.items()}
        self._asked: dict[str, Any] = {"target": work.target, "plan": work.plan}

    def setup(self, worker: Any) -> None:
        """Put it together, on the worker's GPU if it has one; all threads of the worker serve one shard at a time."""
        torch.set_num_threads(worker.state.nthreads)
        model = self._model.to("cuda" if torch.cuda.is_available() else "cpu")
        subject = Subject(model, **self._about)
        members = {name: Explainer(subject, method, long=long) for name, (method, long) in self._methods.items()}
        self.work = ShardTask(members, **self._asked)
