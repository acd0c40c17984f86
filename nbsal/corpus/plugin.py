"""A Dask worker plugin that loads the model once on every worker, including workers that join later."""

import copy
from typing import Any

import torch
from distributed import WorkerPlugin

from nbsal.corpus.shards import Task
from nbsal.explain.explainer import Explainer
from nbsal.model.subject import Subject


class ModelPlugin(WorkerPlugin):  # type: ignore[misc, unused-ignore]
    """The task of a run in parts that can be sent: a subject's lock cannot be pickled, and devices differ."""

    def __init__(self, name: str, task: Task) -> None:
        subject = next(iter(task.explainers.values())).subject
        self.name = name
        self.task: Task | None = None
        self._model = subject.model if subject.device.type == "cpu" else copy.deepcopy(subject.model).cpu()
        head = subject._lm_head
        self._subject_options = {
            "tokenizer": subject.tokenizer,
            "name": subject.name,
            "labels": subject.labels or None,
            "default_layer": subject.default_layer,
            "mask": subject.mask,
            "usage": subject.usage,
            "lm_head": head and head.to(torch.device("cpu"), subject.dtype),
        }
        self._methods = {name: (explainer.method, explainer.long) for name, explainer in task.explainers.items()}
        self._task_options = {name: value for name, value in vars(task).items() if name != "explainers"}

    def setup(self, worker: Any) -> None:
        """Rebuild the task on a worker, on its GPU if it has one; all its threads work on one shard at a time."""
        torch.set_num_threads(worker.state.nthreads)
        model = self._model.to("cuda" if torch.cuda.is_available() else "cpu")
        subject = Subject(model, **self._subject_options)
        explainers = {name: Explainer(subject, method, long=long) for name, (method, long) in self._methods.items()}
        self.task = Task(explainers=explainers, **self._task_options)
