"""Room: batches that memory does not suffice for are halved, with the same results; one text too many is a sentence."""

import gc
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import nbsal
from nbsal import corpus, evaluation
from nbsal.errors import InputError, OutOfMemory
from nbsal.heads import Parse, study
from nbsal.model import batching
from tests.axioms import TEXTS, relative

FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nOf the allocated memory ...")
HALVED = pytest.mark.filterwarnings("ignore:A batch did not fit")


@contextmanager
def narrow(subject, most, error=FULL):
    """A machine on which the model runs at most so many sequences at a time; the sizes of all that were tried."""
    sizes = []

    def limit(module, args, kwargs):
        sizes.append(len(args[0] if args else kwargs["hidden_states"]))
        if sizes[-1] > most:
            raise error

    handle = subject.blocks[0].register_forward_pre_hook(limit, with_kwargs=True)
    try:
        yield sizes
    finally:
        handle.remove()


def many(count=8):
    """Texts of many lengths."""
    return [" ".join([TEXTS[i % 3]] * (1 + i % 3)) + " joy" * i for i in range(count)]


ERRORS = [
    FULL,
    RuntimeError("MPS backend out of memory (MPS allocated: 18.13 GB, ...)"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough memory: you tried to"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    MemoryError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: str(error)[-12:])
def test_a_batch_is_halved_until_it_fits_and_that_is_said(load, error):
    explain, told = nbsal.Explainer(load("bert"), "gradxact"), []
    truth = explain.map(many(), progress=False)
    with narrow(explain.subject, 2, error) as sizes, pytest.warns(UserWarning, match="did not fit into memory"):
        found = explain.map(many(), progress=lambda done, total: told.append((done, total)))
    assert sizes == [8, 4, 2, 2, 4, 2, 2]
    assert [s.text for s in found] == many() and told[-1] == (8, 8) and told == sorted(told)
    for one, other in zip(found, truth, strict=True):
        assert relative(one.scores, other.scores) < 1e-9 and one.provenance == other.provenance


def test_what_allocators_really_say_is_known():
    for allocate in (lambda: torch.empty(10**15), lambda: np.empty(10**15)):
        with pytest.raises(OutOfMemory, match=r"one text at a time.*device="):
            batching.run_in_halves([1], lambda items, allocate=allocate: allocate())
        with pytest.raises(OutOfMemory, match="one text at a time"):
            batching.run_halving(1, lambda count, allocate=allocate: allocate())


@pytest.mark.parametrize("error", [RuntimeError("shapes do not match"), InputError("memory"), KeyboardInterrupt()])
def test_other_errors_are_not_tried_again(load, error):
    explain = nbsal.Explainer(load("bert"), "gradxact")
    with narrow(explain.subject, 0, error) as sizes, pytest.raises(type(error)):
        explain.map(many(), progress=False)
    assert sizes == [8]


WAYS = {
    "one text": lambda explain: explain(TEXTS[0]),
    "every layer": lambda explain: explain.every_layer(TEXTS[0]),
    "many texts": lambda explain: explain.map(TEXTS, progress=False),
    "hidden tokens": lambda explain: nbsal.Explainer(explain.subject, "occlusion")(TEXTS[0]),
    "games": lambda explain: evaluation.games(explain, TEXTS, random=0, progress=False),
    "study": lambda explain: study(explain.subject, [Parse.from_lists(["A"], [-1], ["root"])], progress=False),
}


@HALVED
@pytest.mark.parametrize("way", WAYS)
def test_one_text_that_does_not_fit_is_a_sentence(load, way):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    with narrow(explain.subject, 0), pytest.raises(OutOfMemory, match=r"not enough memory for one text.*2\.00 GiB\.\)"):
        WAYS[way](explain)
    WAYS[way](explain)


OWN = {
    "lime": {"samples": 8},
    "shapley": {"samples": 2},
    "smooth": {},
    "integrated": {},
    "gradient-shap": {},
    "deeplift-shap": {},
    "mask-lrp": {"mask": nbsal.heads.HeadMask.from_array(np.eye(3, 4))},
}


@HALVED
@pytest.mark.parametrize("name", OWN)
def test_methods_that_run_the_model_by_themselves_go_on(load, name):
    explain, told = nbsal.Explainer(load("bert"), name, **OWN[name]), []
    truth = explain.map(TEXTS, progress=False)
    with narrow(explain.subject, 2) as sizes:  # captum asks for a text and its baseline at once
        found = explain.map(TEXTS, progress=lambda done, total: told.append(done))
    assert max(sizes) > 2 and told[-1] == len(TEXTS) and told == sorted(told)
    for one, other in zip(found, truth, strict=True):
        assert relative(one.scores, other.scores) < 1e-9


@HALVED
def test_evaluations_go_on(load):
    explainers = [nbsal.Explainer(load("bert"), name) for name in ("gradcam", "gradxact")]
    texts = many(6)
    for measure, value in ((evaluation.games, "accuracy"), (evaluation.faithfulness, "value")):
        truth = measure(explainers, texts, progress=False)
        with narrow(explainers[0].subject, 5) as sizes:
            found = measure(explainers, texts, progress=False)
        assert max(sizes) > 5
        np.testing.assert_allclose(found.frame[value], truth.frame[value], rtol=1e-9)


@HALVED
def test_studies_count_no_sentence_twice(load):
    subject = load("bert")
    parses = [Parse.from_lists(["good", "food", *["joy"] * i], [1, -1, *[1] * i], ["amod"] * (2 + i)) for i in range(9)]
    truth = study(subject, parses, progress=False)
    with narrow(subject, 2) as sizes:
        found = study(subject, parses, progress=False)
    assert max(sizes) == 9 and found.cases == truth.cases and found.rows == truth.rows
    assert found.relations.equals(truth.relations) and found.positions.equals(truth.positions)


@HALVED
def test_a_corpus_goes_on_and_names_the_rows_that_do_not_fit(load, tmp_path):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    truth = explain.map(many(), progress=False)
    with narrow(explain.subject, 2):
        found = corpus.explain(explain, many(), tmp_path / "narrow", progress=False)
    assert found.failed == 0 and [s.order for s in found] == [s.order for s in truth]

    def long(module, args, kwargs):
        if (args[0] if args else kwargs["hidden_states"]).shape[1] > 20:
            raise FULL

    handle = explain.subject.blocks[0].register_forward_pre_hook(long, with_kwargs=True)
    found = corpus.explain(explain, many(), tmp_path / "short", progress=False)
    handle.remove()
    too_long = [text for text, s in zip(many(), truth, strict=True) if len(s.tokens) > 20]
    assert 0 < len(too_long) < 8 and found.failures()["text"].tolist() == too_long
    assert found.failures()["error"].str.contains("not enough memory for one text").all()


def test_what_failed_is_let_go_before_the_halves_are_tried():
    held, alive = [], []

    def run(items):
        alive.append([one() is not None for one in held])
        large = torch.zeros(8)
        held.append(weakref.ref(large))
        if len(items) > 1:
            raise FULL
        return len(items)

    gc.disable()  # nothing may wait for the collector
    try:
        with pytest.warns(UserWarning):
            assert batching.run_in_halves([1, 2, 3], run) == [1, 1, 1]
        with pytest.raises(OutOfMemory) as kept:
            batching.run_in_halves([1], lambda items: run([1, 2]))
        assert kept.value.__cause__ is FULL and held[-1]() is None
    finally:
        gc.enable()
    assert not any(any(states) for states in alive)
