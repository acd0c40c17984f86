"""Interrupted calls, models that were moved or converted, concurrent threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import nbsal
from nbsal import corpus, evaluation
from nbsal.corpus.folder.storage import LOCK
from nbsal.evaluation.cache import Cache
from nbsal.heads import HeadMask, Parse, study
from nbsal.passes.lrp.mode import proxy_of
from nbsal.support.errors import ModelError
from nbsal.testing.state import snapshot
from tests import axioms, zoo
from tests.axioms import TEXTS
from tests.corpus.kills import files
from tests.raising import refuses_part

MASK = HeadMask.from_array(np.eye(3, 4))
PARSES = [Parse.from_lists(text.rstrip(".?").split(), [-1, 0], ["root", "obj"]) for text in ("A bore.", "Who wrote?")]


def raise_interrupt(*_):
    raise KeyboardInterrupt


@contextmanager
def interrupted(subject, forward=1, backward=False):
    """A model that the user interrupts in the middle of its forward pass of that number, or of its backward pass."""
    calls = []

    def interrupt(module, args, output):
        calls.append(module)
        hidden = output if isinstance(output, torch.Tensor) else output[0]
        if len(calls) == forward and backward:
            proxy = proxy_of(hidden)  # relevance propagates through proxies
            (hidden if proxy is None else proxy).register_hook(raise_interrupt)
        elif len(calls) == forward:
            raise KeyboardInterrupt

    handle = subject.blocks[1].register_forward_hook(interrupt)
    try:
        yield
    finally:
        handle.remove()


def is_free(lock):
    """True if another thread can acquire the lock."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: lock.acquire(blocking=False) and (lock.release() or True)).result()


def explain_many(subject):
    saliencies = nbsal.Explainer(subject, "gradcam").map(TEXTS, batch_size=2, progress=False)
    return [saliency.scores for saliency in saliencies]


CALLS = {
    "every layer": lambda s: nbsal.Explainer(s, "gradxact").every_layer(TEXTS[0]).scores,
    "many texts": explain_many,
    "relevance": lambda s: nbsal.Explainer(s, "mask-lrp", mask=MASK)(TEXTS[0]).scores,
    "games": lambda s: evaluation.games(nbsal.Explainer(s, "gradcam"), TEXTS, random=1, progress=False).frame["low"],
    "study": lambda s: study(s, PARSES, progress=False).positions["alpha"],
    "double": lambda s: nbsal.Explainer(s.double, "gradxact")(TEXTS[0]).scores,
}


@pytest.mark.some(3)
@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_restores_everything_and_the_next_call_works(load, call):
    subject, run = load("bert"), CALLS[call]
    truth = run(subject)
    before = snapshot(subject)
    for backward in [False] if call == "study" else [False, True]:  # a study computes no gradients
        with interrupted(subject, backward=backward), pytest.raises(KeyboardInterrupt):
            run(subject)
        assert snapshot(subject) == before and is_free(subject.lock), backward
    again = run(subject)
    assert all(axioms.relative(ours, exact) < 1e-9 for ours, exact in zip(again, truth, strict=True))


def test_an_interrupted_evaluation_resumes_from_its_cache(load, monkeypatch):
    subject, forwards, logits = load("bert"), [], nbsal.Subject.logits
    explain, cache = nbsal.Explainer(subject, "gradcam"), Cache()
    truth = evaluation.games(explain, TEXTS, random=0, progress=False)

    def interrupt_fourth(subject, inputs):  # a hook would be a change to the model, which empties the cache
        output = logits(subject, inputs)
        forwards.append(output.requires_grad)
        if len(forwards) == 4:
            raise KeyboardInterrupt
        return output

    monkeypatch.setattr(nbsal.Subject, "logits", interrupt_fourth)
    with pytest.raises(KeyboardInterrupt):
        evaluation.games(explain, TEXTS, random=0, progress=False, cache=cache)
    assert len(cache.saliencies[subject, explain.method]) == len(TEXTS)
    resumed = evaluation.games(explain, TEXTS, random=0, progress=False, cache=cache)
    assert resumed.frame.equals(truth.frame) and len(forwards) > 4 and not any(forwards[4:]), "explained again"


def test_an_interrupted_corpus_releases_its_folder_and_resumes(load, tmp_path):
    explain = nbsal.Explainer(load("bert"), "gradcam")
    texts, threads = [*TEXTS, "", *TEXTS], torch.get_num_threads()
    options = {"shard_rows": 2, "progress": False}
    corpus.explain(explain, texts, tmp_path / "whole", **options)
    for moment in ({"forward": 3}, {"forward": 2, "backward": True}):
        with interrupted(explain.subject, **moment), pytest.raises(KeyboardInterrupt):
            corpus.explain(explain, texts, tmp_path / "broken", **options)
        assert not (tmp_path / "broken" / LOCK).exists() and torch.get_num_threads() == threads
        assert 0 < len(corpus.open(tmp_path / "broken").shards) < 5
    corpus.explain(explain, texts, tmp_path / "broken", **options)
    assert files(tmp_path / "broken") == files(tmp_path / "whole")


def in_memory(dtype):
    """A subject of a model in memory."""
    return nbsal.load(zoo.model("bert", "sequence").to(dtype), tokenizer=zoo.tokenizer("wordpiece"), lm="tied")


@pytest.mark.some(3)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["decoded-gradcam", "mask-lrp", "occlusion", "smooth", "attcat"])
def test_a_model_converted_after_loading_is_explained_in_its_new_precision(name, dtype):
    other = torch.float32 if dtype == torch.float64 else torch.float64
    settings = {"mask": MASK} if name == "mask-lrp" else {}
    subject = in_memory(other)
    explain = nbsal.Explainer(subject, name, **settings)
    before = explain(TEXTS[0])
    subject.model.to(dtype)
    after = explain(TEXTS[0])
    assert after.provenance["dtype"] == str(explain.method_subject.dtype).removeprefix("torch.")
    assert explain.method_subject.dtype in (dtype, torch.float64)
    assert axioms.relative(after.scores, before.scores) < 1e-4


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_supported_and_noted_after_a_conversion(dtype):
    subject = in_memory(torch.float32)
    exact = {name: nbsal.Explainer(subject, name)(TEXTS[0]) for name in ("decoded-gradcam", "attcat", "gae", "rollout")}
    subject.model.to(dtype)
    for name, truth in exact.items():
        rough = nbsal.Explainer(subject, name)(TEXTS[0])
        assert "precision" in rough.provenance and "precision" not in truth.provenance
        assert axioms.relative(rough.scores, truth.scores) < 0.2
    relevance = nbsal.Explainer(subject, "lrp")(TEXTS[0])
    assert relevance.provenance["dtype"] == "float64" and "precision" not in relevance.provenance
    loaded = in_memory(dtype)
    for name in ("decoded-gradcam", "occlusion", "lime", "smooth", "integrated", "attcat"):
        assert np.isfinite(nbsal.Explainer(loaded, name)(TEXTS[0]).scores).all()
    assert study(loaded, PARSES, progress=False).cases["obj"] == 2


def test_models_on_the_meta_device_are_refused():
    offloaded = zoo.model("bert", "sequence")
    offloaded.bert.encoder.layer[1].to("meta")
    for model, part in ((zoo.model("bert", "sequence").to("meta"), "device"), (offloaded, "encoder.layer.1.attention")):
        with pytest.raises(ModelError) as caught:
            nbsal.load(model)
        assert part in caught.value.part
    subject = in_memory(torch.float64)
    explainers = [nbsal.Explainer(subject, name) for name in ("decoded-gradcam", "lrp", "occlusion")]
    subject.model.to("meta")
    for explain in explainers:
        with pytest.raises(ModelError) as caught:
            explain(TEXTS[0])
        assert caught.value.part == "device"


def test_threads_that_share_a_model_do_not_interfere(load):
    """Some switch its attention, some freeze its weights, some hook its blocks."""
    subject = load("bert")
    subjects = [subject, nbsal.load(subject.model, tokenizer=subject.tokenizer, lm="tied")]
    names = ("mask-lrp", "attcat", "gradcam", "smooth", "occlusion", "mask-lrp@published")
    explainers = [
        nbsal.Explainer(subjects[i % 2], name, **({"mask": MASK} if name.startswith("mask") else {}))
        for i, name in enumerate(names)
    ]
    truths, before = [explain(TEXTS[0]).scores for explain in explainers], snapshot(subject)
    start = threading.Barrier(len(explainers))

    def work(explain):
        start.wait(120)
        return [explain(TEXTS[0]).scores for _ in range(4)]

    with ThreadPoolExecutor(len(explainers)) as pool:
        results = list(pool.map(work, explainers))
    for truth, rounds in zip(truths, results, strict=True):
        assert all(axioms.relative(scores, truth) < 1e-9 for scores in rounds)
    assert snapshot(subject) == before


@pytest.fixture(scope="module")
def broken(load):
    """An explainer of a model that returns NaN for texts with one token, and texts of which one has it."""
    subject = load("bert")
    texts = ["the old dog", "the cat", "a good film", "the film"]
    rows = subject.encode(texts)
    odd = next(number for number in rows[2].ids if not any(number in rows[at].ids for at in (0, 1, 3)))
    with torch.no_grad():
        subject.model.get_input_embeddings().weight[odd] = torch.inf
    return nbsal.Explainer(subject, "gradxact", layer=1), texts


def test_the_text_whose_output_is_nan_is_named(broken):
    explain, texts = broken
    calls = {
        "map": lambda: explain.map(texts, progress=False),
        "compare": lambda: nbsal.compare(explain.subject, ["gradxact"], texts, progress=False),
        "audit": lambda: nbsal.audit(explain, texts, least=1, progress=False),
        "games": lambda: nbsal.evaluation.games(explain, texts, random=0, progress=False),
    }
    for name, call in calls.items():
        with refuses_part("output") as caught:
            call()
        assert "Text 2:" in str(caught.value), name
    with refuses_part("output") as caught:
        explain(texts[2])
    assert "Text" not in str(caught.value)
    with refuses_part("output") as caught:
        explain.map(texts, progress=False)
    assert [saliency.text for saliency in caught.value.partial][:2] == texts[:2]
