"""Interrupted calls, models that were moved or converted, concurrent threads, restarted kernels."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from jupyter_client.manager import start_new_kernel

import nbsal
from nbsal import corpus, evaluation
from nbsal.corpus.storage import LOCK
from nbsal.errors import ModelError
from nbsal.evaluation.cache import Cache
from nbsal.heads import HeadMask, Parse, study
from nbsal.lrp.mode import proxy_of
from nbsal.testing.state import snapshot
from nbsal.widgets import Highlight
from tests import axioms, zoo
from tests.axioms import TEXTS
from tests.corpus import kills
from tests.corpus.kills import files

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


def scores(saliencies):
    return [saliency.scores for saliency in saliencies]


CALLS = {
    "one text": lambda s: nbsal.Explainer(s, "decoded-gradcam")(TEXTS[0]).scores,
    "every layer": lambda s: nbsal.Explainer(s, "gradxact").every_layer(TEXTS[0]).scores,
    "token ids": lambda s: nbsal.Explainer(s, "gradcam").ids([5, 6, 7]).scores,
    "many texts": lambda s: scores(nbsal.Explainer(s, "gradcam").map(TEXTS, batch_size=2, progress=False)),
    "compare": lambda s: scores(nbsal.compare(s, ["attcat", "gradcam"], TEXTS, batch_size=2, progress=False)["attcat"]),
    "relevance": lambda s: nbsal.Explainer(s, "mask-lrp", mask=MASK)(TEXTS[0]).scores,
    "published rules": lambda s: nbsal.Explainer(s, "mask-lrp@published", mask=MASK)(TEXTS[0]).scores,
    "perturbation": lambda s: nbsal.Explainer(s, "occlusion")(TEXTS[0]).scores,
    "path": lambda s: nbsal.Explainer(s, "smooth")(TEXTS[0]).scores,
    "games": lambda s: evaluation.games(nbsal.Explainer(s, "gradcam"), TEXTS, random=1, progress=False).frame["low"],
    "faithfulness": lambda s: evaluation.faithfulness(nbsal.Explainer(s, "gradcam"), TEXTS, progress=False).frame[
        "low"
    ],
    "study": lambda s: study(s, PARSES, progress=False).positions["alpha"],
    "double": lambda s: nbsal.Explainer(s.double, "gradxact")(TEXTS[0]).scores,
}
FORWARDS = {"games": 4, "faithfulness": 4, "many texts": 2, "compare": 2, "perturbation": 3, "path": 2}
NO_BACKWARD = {"perturbation", "study"}


@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_restores_everything_and_the_next_call_works(load, call):
    subject, run = load("bert"), CALLS[call]
    truth = run(subject)
    before = snapshot(subject)
    later = FORWARDS.get(call, 1)
    moments = [{"forward": 1}, {"forward": later}]
    moments += [] if call in NO_BACKWARD else [{"forward": 2 if call == "path" else 1, "backward": True}]
    for moment in moments:
        with interrupted(subject, **moment), pytest.raises(KeyboardInterrupt):
            run(subject)
        assert snapshot(subject) == before and is_free(subject.lock), moment
    again = run(subject)
    assert all(axioms.relative(ours, exact) < 1e-9 for ours, exact in zip(again, truth, strict=True))


def test_the_check_detects_a_model_that_is_not_restored(load, monkeypatch):
    """A mutant that leaves the model in evaluation mode."""
    subject = load("bert")
    subject.model.train()
    before = snapshot(subject)

    @contextmanager
    def eval_mode(model):
        model.eval()
        yield

    monkeypatch.setattr(nbsal.model.architecture, "eval_mode", eval_mode)
    with interrupted(subject), pytest.raises(KeyboardInterrupt):
        CALLS["one text"](subject)
    assert snapshot(subject) != before


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


@pytest.fixture
def interruptible():
    """Interrupts raise KeyboardInterrupt as in a kernel; parallel test runners may ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_waiting_for_a_view_can_be_interrupted(reviews):
    proceed = threading.Event()

    class SlowHighlight(Highlight):
        def compute(self, inputs, job):
            if not proceed.is_set():
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                proceed.wait(10)
            return super().compute(inputs, job)

    view = SlowHighlight(nbsal.Explainer(reviews, "gradcam"), text=TEXTS[0])
    with pytest.raises(KeyboardInterrupt):
        view.wait(10)
        threading.Event().wait(10)  # if the interrupt arrived between the two lines
    proceed.set()
    assert view.wait(10).status == "ready" and view.result.text == TEXTS[0]
    view.close()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["decoded-gradcam", "mask-lrp", "occlusion", "smooth", "attcat"])
def test_a_model_converted_after_loading_is_explained_in_its_new_precision(load, name, dtype):
    other = torch.float32 if dtype == torch.float64 else torch.float64
    settings = {"mask": MASK} if name == "mask-lrp" else {}
    model = zoo.model("bert", "sequence").to(other)
    subject = nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"), lm="tied")
    explain = nbsal.Explainer(subject, name, **settings)
    before = explain(TEXTS[0])
    model.to(dtype)
    after = explain(TEXTS[0])
    assert after.provenance["dtype"] == str(explain.method_subject.dtype).removeprefix("torch.")
    assert (
        explain.method_subject.dtype in (dtype, torch.float64) and axioms.relative(after.scores, before.scores) < 1e-4
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_converted_to_half_precision_after_loading_is_noted(load, dtype):
    model = zoo.model("bert", "sequence").float()
    subject = nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"), lm="tied")
    exact = {name: nbsal.Explainer(subject, name)(TEXTS[0]) for name in ("decoded-gradcam", "attcat", "gae", "rollout")}
    model.to(dtype)
    for name, truth in exact.items():
        rough = nbsal.Explainer(subject, name)(TEXTS[0])
        assert "precision" in rough.provenance and "precision" not in truth.provenance
        assert axioms.relative(rough.scores, truth.scores) < 0.2
    relevance = nbsal.Explainer(subject, "lrp")(TEXTS[0])
    assert relevance.provenance["dtype"] == "float64" and "precision" not in relevance.provenance


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_method_supports_half_precision(load, dtype):
    subject = nbsal.load(zoo.model("bert", "sequence").to(dtype), tokenizer=zoo.tokenizer("wordpiece"), lm="tied")
    for name in ("decoded-gradcam", "mask-lrp", "occlusion", "lime", "smooth", "integrated", "attcat", "rollout"):
        settings = {"mask": MASK} if name == "mask-lrp" else {}
        assert np.isfinite(nbsal.Explainer(subject, name, **settings)(TEXTS[0]).scores).all()
    assert study(subject, PARSES, progress=False).cases["obj"] == 2


def test_models_on_the_meta_device_are_refused():
    with pytest.raises(ModelError) as caught:
        nbsal.load(zoo.model("bert", "sequence").to("meta"))
    assert caught.value.part == "device"
    offloaded = zoo.model("bert", "sequence")
    offloaded.bert.encoder.layer[1].to("meta")
    with pytest.raises(ModelError) as caught:
        nbsal.load(offloaded)
    assert "encoder.layer.1.attention" in caught.value.part
    model = zoo.model("bert", "sequence")
    subject = nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"), lm="tied")
    explainers = [nbsal.Explainer(subject, name) for name in ("decoded-gradcam", "lrp", "occlusion")]
    model.to("meta")
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
        start.wait(10)
        return [explain(TEXTS[0]).scores for _ in range(4)]

    with ThreadPoolExecutor(len(explainers)) as pool:
        results = list(pool.map(work, explainers))
    for truth, rounds in zip(truths, results, strict=True):
        assert all(axioms.relative(scores, truth) < 1e-9 for scores in rounds)
    assert snapshot(subject) == before


CELL = """
import warnings; warnings.filterwarnings("ignore")
import torch, nbsal, threading
from tests.corpus import kills
torch.set_num_threads(1)
explain = nbsal.Explainer(nbsal.load({checkpoint!r}), "gradcam")
report = lambda done, total: print(done, flush=True)
nbsal.corpus.explain(explain, kills.texts(), {out!r}, shard_rows=kills.SHARD, progress=report)
"""


@pytest.mark.full
def test_a_restarted_kernel_resumes_the_corpus(checkpoints, tmp_path):
    """The first kernel dies in the middle of the corpus; the next one runs the same cell.

    By day, tests/corpus/test_kills.py kills processes that are no kernels.
    """
    checkpoint, out = zoo.save(checkpoints, "bert", "sequence"), tmp_path / "broken"
    cell = CELL.format(checkpoint=str(checkpoint), out=str(out))
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        client.execute(cell)
        while True:
            message = client.get_iopub_msg(timeout=60)
            assert message["msg_type"] != "error", message["content"]["traceback"]
            if any(int(done) >= 40 for done in message["content"].get("text", "").split()):
                break
        manager.restart_kernel(now=True)
        finished = len(corpus.open(out).shards)
        client.wait_for_ready(timeout=60)
        reply = client.execute_interactive(cell, timeout=60, output_hook=lambda message: None)
        assert reply["content"]["status"] == "ok", reply["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert 0 < finished < kills.ROWS // kills.SHARD
    explain = nbsal.Explainer(nbsal.load(checkpoint), "gradcam")
    corpus.explain(explain, kills.texts(), tmp_path / "whole", shard_rows=kills.SHARD, progress=False)
    assert files(out) == files(tmp_path / "whole")
