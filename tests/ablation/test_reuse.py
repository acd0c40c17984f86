"""Hidden variants of a text that are read from their first change on, against those that are read as a whole."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

import nbsal
from nbsal.ablation import reuse as reused
from nbsal.ablation.known import known_of
from nbsal.model.running import memory
from nbsal.support.errors import OutOfMemory
from tests import axioms, zoo
from tests.ablation.runs import logits_of

WAYS = ("remove", "pad")
TEXT = f"{' '.join(zoo.CORPUS)[:110]} joy joy joy"
DECODERS = ["gpt2", "llama", "qwen3", "gpt-neo", "gpt-neox", "opt", "gemma3", "phi3", "mixtral", "gpt-oss"]
SETTINGS = {"gemma3": {"sliding_window": 5}, "gpt-oss": {"sliding_window": 5}}
OTHERS = [
    ("bert", "sequence"),
    ("modernbert", "token"),
    ("bloom", "causal"),
    ("xlnet", "sequence"),
    ("mamba", "causal"),
]


@pytest.fixture
def reuse(monkeypatch):
    """reuse(False) reads every variant as a whole, reuse(True) reuses what it can, however little it saves."""
    can_reuse = reused.can_reuse
    monkeypatch.setattr(reused, "LEAST_SAVED", 0)

    def choose(reuses: bool) -> None:
        monkeypatch.setattr(reused, "can_reuse", can_reuse if reuses else lambda subject: False)

    return choose


def load_decoder(load, name, head, dtype="float64"):
    dtype = "float32" if name in zoo.SINGLE_PRECISION else dtype
    return load(name, head, dtype=dtype, decoding=False, **SETTINGS.get(name, {}))


def each_hidden(row):
    """The whole text after subsets that leave out one token each."""
    table = np.ones((len(row.content) + 1, len(row)), dtype=bool)
    table[range(len(row.content)), list(row.content)] = False
    return table


@contextmanager
def count_tokens(subject):
    """Count the positions that pass through the first block."""
    counts = []

    def count(module, args, kwargs):
        hidden = args[0] if args else kwargs["hidden_states"]
        counts.append(hidden.shape[0] * hidden.shape[1])

    handle = subject.blocks[0].register_forward_pre_hook(count, with_kwargs=True)
    yield counts
    handle.remove()


def run(subject, rows, tables, way="remove"):
    """The logits, whether reuse of this text was exact, and how many positions were computed."""
    assert subject.measured_pooling or subject.task != "sequence"  # measured once, by passes of its own
    with count_tokens(subject) as counts:
        logits = logits_of(subject, rows, tables, way)
        exact = known_of(subject).reuse.holds(max(map(len, rows)))  # of the model with its hook, which is another one
    return logits, exact, sum(counts)


def largest_change(subject, row, logits):
    (whole,) = logits_of(subject, [row], [np.ones((1, len(row)), dtype=bool)])
    size = min(whole.shape[1], logits.shape[1])
    return float((logits[:, :size] - whole[:, :size]).abs().max())


@pytest.mark.some(5)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("head", ["sequence", "causal"])
@pytest.mark.parametrize("name", DECODERS)
def test_what_is_reused_changes_nothing(load, reuse, name, head, way):
    subject = load_decoder(load, name, head)
    (row,) = subject.encode(TEXT)
    rows = [row.pick(row.content), row]  # the head of the first reads a token that is hidden in one of its variants
    tables = [each_hidden(row) for row in rows]
    reuse(True)
    ours, reuses, computed = run(subject, rows, tables, way)
    assert reuses
    reuse(False)
    plain, _, computed_plainly = run(subject, rows, tables, way)
    assert computed < 0.8 * computed_plainly
    for row, logits, truth in zip(rows, ours, plain, strict=True):
        exactness = 1e-10 if subject.dtype == torch.float64 else 1e-5
        assert (logits - truth).abs().max() <= exactness * largest_change(subject, row, truth)


@pytest.mark.some(1)
@pytest.mark.parametrize("method", ["occlusion", "shapley", "kernel-shap", "lime"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_batch_equals_its_singles(load, reuse, method, dtype):
    reuse(True)
    explain = nbsal.Explainer(load_decoder(load, "llama", "sequence", dtype), method)
    texts = [TEXT, TEXT[40:], "A bore.", TEXT[20:100]]
    for together, text in zip(explain.map(texts, progress=False), texts, strict=True):
        assert axioms.relative(together.scores, explain(text).scores) < (1e-9 if dtype == "float64" else 1e-5)


@pytest.mark.some(3)
@pytest.mark.parametrize(("name", "head"), OTHERS)
def test_other_models_are_read_as_a_whole(load, reuse, name, head):
    subject = load(name, head, dtype="float32", decoding=False)
    (row,) = subject.encode(TEXT)
    reuse(True)
    (ours,), reuses, computed = run(subject, [row], [each_hidden(row)])
    assert not reuses and not reused.can_reuse(subject)
    reuse(False)
    (plain,), _, computed_plainly = run(subject, [row], [each_hidden(row)])
    assert axioms.relative(ours, plain) < 1e-4 and computed == computed_plainly


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_rotations_that_depend_on_the_longest_position_are_not_reused(kind):
    scaling = {"rope_type": kind, "rope_theta": 10000.0, "factor": 2.0}
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 32}
    rotation = scaling | (factors if kind == "longrope" else {})
    model = zoo.model("llama", "sequence", rope_parameters=rotation)
    assert not reused.can_reuse(nbsal.load(model, tokenizer=zoo.tokenizer("pieces")))


def look_ahead(module, args, kwargs):
    """Let every position see all others, as a causal model must not."""
    hidden = args[0] if args else kwargs["hidden_states"]
    changed = hidden + hidden.mean(1, keepdim=True)
    return ((changed, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": changed})


@pytest.mark.parametrize("head", ["sequence", "causal"])
def test_a_model_that_looks_ahead_is_found_out(load, reuse, head):
    subject = load_decoder(load, "llama", head)
    subject.blocks[1].register_forward_pre_hook(look_ahead, with_kwargs=True)
    (row,) = subject.encode(TEXT)
    assert reused.can_reuse(subject)
    reuse(True)
    (ours,), reuses, _ = run(subject, [row], [each_hidden(row)], "mask")
    assert not reuses
    reuse(False)
    assert axioms.relative(ours, run(subject, [row], [each_hidden(row)], "mask")[0][0]) < 1e-12


def test_without_room_for_a_cache_texts_are_read_as_a_whole(load, reuse, monkeypatch):
    def refuse(subject, encoded, maps, states):
        assert states == 2 * subject.depth and len(encoded) == 1
        raise OutOfMemory("no room")

    reuse(True)
    subject = load_decoder(load, "llama", "sequence")
    (row,) = subject.encode(TEXT)
    (ours,), reuses, computed = run(subject, [row], [each_hidden(row)])
    monkeypatch.setattr(memory, "check_fits", refuse)
    (plain,), _, computed_without = run(subject, [row], [each_hidden(row)])
    assert reuses and computed < computed_without and axioms.relative(ours, plain) < 1e-9


def test_only_variants_that_change_late_are_worth_it():
    class Variant:
        size = 80

        def __init__(self, start):
            self.start = start

    early, late = [Variant(start) for start in range(9)], [Variant(start) for start in range(10, 60)]
    assert reused.worth_sharing(early) == []
    assert reused.worth_sharing(late[:25]) == []
    assert reused.worth_sharing(late[::-1] + early) == late
    assert reused.worth_sharing(late + 20 * early) == [], "of so many, the late ones are a small part"
    for batch in reused.batches(late, 400, 7):
        assert len(batch) <= 7 and len(batch) * (80 - batch[0].start) <= 400
        assert sum(variant.start - batch[0].start for variant in batch) <= reused.MAX_WASTED
