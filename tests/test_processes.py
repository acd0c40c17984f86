"""Subjects, explainers and results are copied, pickled and used in other processes, also while a worker explains."""

import copy
import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import torch

import nbsal
from nbsal.heads import HeadMask
from tests import axioms, zoo
from tests.axioms import TEXTS

LIMIT = 240  # seconds; a child that hangs fails the test


@pytest.fixture
def in_memory():
    """A subject of a model in memory."""
    return nbsal.load(zoo.model("bert", "sequence"), tokenizer=zoo.tokenizer("wordpiece"), lm="tied")


def explain_text(explain, text):
    return explain(text).scores


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(name, marks=pytest.mark.full) for name in ("spawn", "forkserver"))]
)
def test_explainers_work_in_other_processes(in_memory, method):
    explain = nbsal.Explainer(in_memory, "mask-lrp", mask=HeadMask.from_array(np.eye(3, 4)))
    truth = [explain(text).scores for text in TEXTS[:2]]
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        results = [pool.submit(explain_text, explain, text).result(LIMIT) for text in TEXTS[:2]]
    assert all(np.array_equal(*pair) for pair in zip(results, truth, strict=True))


def test_a_loaded_subject_is_pickled_by_its_source(small):
    data = pickle.dumps(small)
    assert len(data) < 10_000
    again = pickle.loads(data)
    assert again.model is not small.model and again.lock is not small.lock and again.name == small.name
    explain = [nbsal.Explainer(subject, "decoded-gradcam") for subject in (small, again)]
    assert np.array_equal(*(explainer(TEXTS[0]).scores for explainer in explain))


def test_a_subject_that_was_changed_is_pickled_with_its_weights(load):
    for change in (
        lambda subject: axioms.change_weights(subject.model),
        lambda subject: subject.model.classifier.weight.data.mul_(-1),
        lambda subject: setattr(subject.model.bert.encoder.layer[1].output.LayerNorm, "eps", 0.5),
    ):
        subject = load("bert")
        before = nbsal.Explainer(subject, "gradcam")(TEXTS[0]).scores
        change(subject)
        truth = nbsal.Explainer(subject, "gradcam")(TEXTS[0]).scores
        assert not np.array_equal(truth, before)
        again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(subject))))
        assert np.array_equal(nbsal.Explainer(again, "gradcam")(TEXTS[0]).scores, truth)


def test_copies_are_independent(in_memory):
    explain = nbsal.Explainer(in_memory, "lrp", dtype="float64")
    truth, decoded = explain(TEXTS[0]).scores, nbsal.Explainer(in_memory, "decoded-gradcam")(TEXTS[0]).scores
    copied = copy.deepcopy(explain)
    other = copied.subject
    assert other.model is not in_memory.model and other.lock is not in_memory.lock and not other._copies
    assert other.blocks[0] in list(other.model.modules()) and other.lm_head.weight is not in_memory.lm_head.weight
    assert np.array_equal(copied(TEXTS[0]).scores, truth)
    assert np.array_equal(nbsal.Explainer(other, "decoded-gradcam")(TEXTS[0]).scores, decoded)
    axioms.change_weights(other.model)
    assert not np.array_equal(copied(TEXTS[0]).scores, truth) and np.array_equal(explain(TEXTS[0]).scores, truth)
    shallow = copy.copy(in_memory)
    assert shallow.model is in_memory.model and shallow.lock is in_memory.lock


def test_results_and_settings_survive_a_pickle(in_memory):
    explain = nbsal.Explainer(in_memory, "gradcam")
    for result in (explain(TEXTS[0]), explain.every_layer(TEXTS[0]), explain.map(TEXTS[:2], progress=False)[1]):
        again = pickle.loads(pickle.dumps(result))
        assert np.array_equal(again.scores, result.scores) and again.row == result.row
    subject = in_memory
    subject.mask, subject.default_layer, subject.labels = HeadMask.from_array(np.eye(3, 4)), 1, ["a", "b", "c"]
    again = pickle.loads(pickle.dumps(subject))
    assert again.default_layer == 1 and again.labels == ["a", "b", "c"] and (again.mask.selected == np.eye(3, 4)).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_threads_explain(in_memory):
    """Other threads hold the locks, and have the model hooked and in evaluation mode, when the process forks."""
    in_memory.model.float().train()
    explain, inside, leave = nbsal.Explainer(in_memory, "rollout"), threading.Event(), threading.Event()
    truth = explain(TEXTS[0]).scores
    hooks = len(in_memory.blocks[0]._forward_hooks)

    def pause(module, args, output):
        if threading.current_thread().name == "explains":
            inside.set()
            leave.wait(LIMIT)

    handle = in_memory.blocks[1].register_forward_hook(pause)
    thread = threading.Thread(target=explain, args=(TEXTS[0],), name="explains")
    thread.start()
    assert inside.wait(LIMIT)

    def child():
        torch.ones(10**6).exp()  # hangs if it waits for the parent's threads
        assert in_memory.model.training and len(in_memory.blocks[0]._forward_hooks) == hooks
        assert np.array_equal(explain(TEXTS[0]).scores, truth)

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.ones(10**6).exp()
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(LIMIT)
        assert process.exitcode == 0, "the child hangs or fails"
    finally:
        torch.set_num_threads(threads)
        process.kill()
        leave.set()
        thread.join()
        handle.remove()
