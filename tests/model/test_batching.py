"""On out-of-memory a batch is retried in halves with the same results; a single text raises OutOfMemory."""

import gc
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import nbsal
from nbsal import corpus, evaluation
from nbsal.heads import Parse, study
from nbsal.model.running import memory
from nbsal.support.errors import InputError, OutOfMemory
from tests.axioms import TEXTS, relative
from tests.cases import cases

OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nOf the allocated memory ...")
halves = pytest.mark.filterwarnings("ignore:A batch did not fit")


@contextmanager
def limited_memory(subject, limit, error=OUT_OF_MEMORY):
    """Raise the error for batches of more than `limit` rows; yields the list of all batch sizes tried."""
    sizes = []

    def check_size(module, args, kwargs):
        sizes.append(len(args[0] if args else kwargs["hidden_states"]))
        if sizes[-1] > limit:
            raise error

    handle = subject.blocks[0].register_forward_pre_hook(check_size, with_kwargs=True)
    try:
        yield sizes
    finally:
        handle.remove()


def make_texts(count=8):
    """Texts of many lengths."""
    return [" ".join([TEXTS[i % 3]] * (1 + i % 3)) + " joy" * i for i in range(count)]


ERRORS = [
    OUT_OF_MEMORY,
    RuntimeError("MPS backend out of memory (MPS allocated: 18.13 GB, ...)"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough memory: you tried to"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    MemoryError(),
]


@cases("error", ERRORS)
def test_a_batch_is_halved_until_it_fits_with_a_warning(load, error):
    explain, reports = nbsal.Explainer(load("bert"), "gradxact"), []
    truth = explain.map(make_texts(), progress=False)
    with limited_memory(explain.subject, 2, error) as sizes, pytest.warns(UserWarning):
        saliencies = explain.map(make_texts(), progress=lambda done, total: reports.append((done, total)))
    assert sizes == [8, 4, 2, 2, 4, 2, 2]
    assert [s.text for s in saliencies] == make_texts() and reports[-1] == (8, 8) and reports == sorted(reports)
    for ours, exact in zip(saliencies, truth, strict=True):
        assert relative(ours.scores, exact.scores) < 1e-9 and ours.provenance == exact.provenance


@pytest.mark.parametrize("error", [RuntimeError("shapes do not match"), InputError("memory"), KeyboardInterrupt()])
def test_other_errors_are_not_retried(load, error):
    explain = nbsal.Explainer(load("bert"), "gradxact")
    explain.subject.pooling  # noqa: B018 - measured by running the model
    with limited_memory(explain.subject, 0, error) as sizes, pytest.raises(type(error)):
        explain.map(make_texts(), progress=False)
    assert sizes == [8]


CALLS = {
    "one text": lambda explain: explain(TEXTS[0]),
    "every layer": lambda explain: explain.every_layer(TEXTS[0]),
    "many texts": lambda explain: explain.map(TEXTS, progress=False),
    "hidden tokens": lambda explain: nbsal.Explainer(explain.subject, "occlusion")(TEXTS[0]),
    "games": lambda explain: evaluation.games(explain, TEXTS, random=0, progress=False),
    "study": lambda explain: study(explain.subject, [Parse.from_lists(["A"], [-1], ["root"])], progress=False),
}


@halves
@pytest.mark.parametrize("call", CALLS)
def test_a_single_text_that_does_not_fit_raises_out_of_memory(load, call):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    with limited_memory(explain.subject, 0), pytest.raises(OutOfMemory, match=r"2\.00 GiB"):
        CALLS[call](explain)
    CALLS[call](explain)


METHODS = {
    "lime": {"samples": 8},
    "shapley": {"samples": 2},
    "smooth": {},
    "integrated": {},
    "gradient-shap": {},
    "deeplift-shap": {},
    "mask-lrp": {"mask": nbsal.heads.HeadMask.from_array(np.eye(3, 4))},
}


@halves
@pytest.mark.some(4)
@pytest.mark.parametrize("name", METHODS)
def test_methods_that_run_the_model_retry_in_halves(load, name):
    explain, reports = nbsal.Explainer(load("bert"), name, **METHODS[name]), []
    truth = explain.map(TEXTS, progress=False)
    with limited_memory(explain.subject, 2) as sizes:  # captum runs a text and its baseline together
        saliencies = explain.map(TEXTS, progress=lambda done, total: reports.append(done))
    assert max(sizes) > 2 and reports[-1] == len(TEXTS) and reports == sorted(reports)
    for ours, exact in zip(saliencies, truth, strict=True):
        assert relative(ours.scores, exact.scores) < 1e-9


@halves
def test_a_corpus_run_reports_the_rows_that_do_not_fit(load, tmp_path):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    truth = explain.map(make_texts(), progress=False)
    with limited_memory(explain.subject, 2):
        dataset = corpus.explain(explain, make_texts(), tmp_path / "limited", progress=False)
    assert dataset.failed == 0 and [s.order for s in dataset] == [s.order for s in truth]

    def refuse_long_texts(module, args, kwargs):
        if (args[0] if args else kwargs["hidden_states"]).shape[1] > 20:
            raise OUT_OF_MEMORY

    handle = explain.subject.blocks[0].register_forward_pre_hook(refuse_long_texts, with_kwargs=True)
    dataset = corpus.explain(explain, make_texts(), tmp_path / "short", progress=False)
    handle.remove()
    too_long = [text for text, s in zip(make_texts(), truth, strict=True) if len(s.tokens) > 20]
    assert 0 < len(too_long) < 8 and dataset.failures()["text"].tolist() == too_long
    assert dataset.failures()["error"].str.contains("memory").all()


def test_tensors_of_a_failed_batch_are_freed_before_the_retry():
    references, alive = [], []

    def run(items):
        alive.append([reference() is not None for reference in references])
        large = torch.zeros(8)
        references.append(weakref.ref(large))
        if len(items) > 1:
            raise OUT_OF_MEMORY
        return len(items)

    gc.disable()  # tensors must be freed without the garbage collector
    try:
        with pytest.warns(UserWarning):
            assert memory.run_in_halves([1, 2, 3], run) == [1, 1, 1]
        with pytest.raises(OutOfMemory) as caught:
            memory.run_in_halves([1], lambda items: run([1, 2]))
        assert caught.value.__cause__ is OUT_OF_MEMORY and references[-1]() is None
    finally:
        gc.enable()
    assert not any(any(states) for states in alive)
