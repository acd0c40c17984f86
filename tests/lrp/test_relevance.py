"""Relevance propagation: conservation on stock models, strictness, replicas of rules and of Mask-LRP's readings."""

import gc
import threading
import weakref

import numpy as np
import pytest
import torch

import nbsal
from nbsal import trace
from nbsal.errors import InputError, ModelError, UnknownName
from nbsal.heads import HeadMask
from nbsal.lrp import mode, rules
from nbsal.methods import catalogue
from tests import axioms, zoo

RELEVANCE = ("lrp", "partial-lrp", "transformer-attribution", "attn-lrp")
MASK = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]])


def totals(read, passage=mode.unfiltered, chosen=rules.DEFAULT):
    """The sum of relevance at every layer, [layer, text]."""
    hidden = read.relevance_maps(chosen, passage).hidden
    return torch.stack([hidden[layer].sum((1, 2)) for layer in sorted(hidden)])


@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_relevance_is_conserved(load, architecture):
    subject = load(architecture)
    read = trace.record(subject, subject.encode(axioms.TEXTS), needs=set())
    assert axioms.relative(totals(read), torch.ones(4, 4)) < 1e-6


def test_spans_and_contrasts_begin_with_their_own_sum(load):
    subject = load("bert", "span")
    read = trace.record(subject, subject.encode(("Who wrote it?", "The company.")), [(5, 6)], needs=set())
    assert axioms.relative(totals(read), torch.full((4, 1), 2.0)) < 1e-6


@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
@pytest.mark.parametrize("masked", [MASK, np.zeros((3, 4)), np.ones((3, 4))], ids=["some", "none", "all"])
def test_relevance_is_conserved_under_masks(load, architecture, masked):
    subject = load(architecture)
    method = nbsal.Explainer(subject, "mask-lrp", mask=HeadMask.from_array(masked)).method
    read = trace.record(subject, subject.encode(axioms.TEXTS), needs=set())
    assert axioms.relative(totals(read, method.passage(read)), torch.ones(4, 4)) < 1e-6


def test_conservation_catches_a_lossy_rule(load, monkeypatch):
    monkeypatch.setattr(rules, "summands", lambda r, a, b, chosen: (r / 2, r / 3))
    with pytest.raises(AssertionError):
        test_relevance_is_conserved(load, "bert")


def test_an_operation_without_a_rule_names_itself(load):
    subject = load("bert")
    handle = subject.blocks[1].register_forward_hook(lambda module, args, output: torch.sin(output))
    with pytest.raises(ModelError, match=r"no rule for torch\.sin, .* a method of another family"):
        nbsal.Explainer(subject, "lrp")(axioms.TEXTS[0])
    handle.remove()


def test_fused_attention_is_refused_not_skipped(load, monkeypatch):
    from contextlib import nullcontext

    monkeypatch.setattr(trace, "_eager", lambda model: nullcontext())
    with pytest.raises(ModelError, match="scaled_dot_product_attention"):
        nbsal.Explainer(load("bert"), "lrp")(axioms.TEXTS[0])


@pytest.mark.parametrize("name", RELEVANCE)
@pytest.mark.parametrize("architecture", ["bert", "deberta-v2", "modernbert", "llama", "gpt2"])
def test_batches_equal_singles(load, architecture, name):
    explain = nbsal.Explainer(load(architecture), name)
    texts = [*axioms.TEXTS, *[text.lower() for text in axioms.TEXTS]]
    for text, one in zip(texts, explain.map(texts, batch_size=8, progress=False), strict=True):
        assert axioms.relative(one.scores, explain(text).scores) < 1e-9


# attention-gradcam@published divides nothing by nothing on some texts; the golden values cover it.
PUBLISHED = [n for n in catalogue.names() if n.endswith(("@published", "@chefer")) and "gradcam" not in n]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_variants_do_not_mix_texts_either(load, name):
    settings = {"mask": HeadMask.from_array(MASK)} if name.startswith("mask-lrp") else {}
    explain = nbsal.Explainer(load("bert"), name, **settings)
    for text, one in zip(axioms.TEXTS, explain.map(axioms.TEXTS, progress=False), strict=True):
        assert axioms.relative(one.scores, explain(text).scores) < 1e-6


def test_the_batch_axiom_catches_totals_over_the_whole_batch(load, monkeypatch):
    def mixing(relevance, a, b, chosen):
        part = rules.share(relevance, a + b, chosen)
        ours, theirs = a * part, b * part
        weight = ours.sum().abs() + theirs.sum().abs()
        total = relevance.sum()
        return ours * (total / weight * ours.sum().sign()), theirs * (total / weight * theirs.sum().sign())

    monkeypatch.setattr(rules, "summands", mixing)
    with pytest.raises(AssertionError):
        test_batches_equal_singles(load, "bert", "lrp")


def positive_linear(relevance, x, weight):
    """The linear rule by loops over one row: positive contributions share what their output received."""
    found = torch.zeros_like(x)
    for o in range(len(weight)):
        contributions = x * weight[o]
        positive = contributions.clamp_min(0)
        if positive.sum() > 0:
            found += relevance[o] * positive / positive.sum()
    return found


def test_linear_rule():
    torch.manual_seed(0)
    x, weight, bias = torch.randn(5, 7).double(), torch.randn(6, 7).double(), torch.randn(6).double()
    relevance = torch.randn(5, 6).double()
    x.requires_grad_(True)
    y = rules.apply(rules.Linear, x, weight, bias, x.detach() @ weight.T + bias, rules.DEFAULT, weight.abs())
    assert torch.equal(y, torch.nn.functional.linear(x, weight, bias))
    (found,) = torch.autograd.grad(y, x, relevance)
    truth = torch.stack([positive_linear(r, row, weight) for r, row in zip(relevance, x.detach(), strict=True)])
    assert axioms.relative(found, truth) < 1e-8


def test_linear_rule_gives_nothing_where_nothing_speaks_for_the_output():
    x, weight = torch.ones(1, 3).double().requires_grad_(True), -torch.rand(2, 3).double()
    y = rules.apply(rules.Linear, x, weight, None, x.detach() @ weight.T, rules.DEFAULT, weight.abs())
    assert not torch.autograd.grad(y, x, torch.ones(1, 2).double())[0].any()


def test_product_rule():
    torch.manual_seed(0)
    a, b = torch.rand(2, 3, 4).double().requires_grad_(True), torch.randn(2, 4, 5).double().requires_grad_(True)
    relevance = torch.randn(2, 3, 5).double()
    y = rules.apply(rules.Product, a, b, (a @ b).detach(), rules.DEFAULT, None)
    ours = torch.autograd.grad(y, (a, b), relevance)
    truth = torch.zeros_like(a), torch.zeros_like(b)
    for n, i, j, k in np.ndindex(2, 3, 5, 4):
        part = (a[n, i, k] * b[n, k, j] * relevance[n, i, j] / y[n, i, j] / 2).detach()
        truth[0][n, i, k] += part
        truth[1][n, k, j] += part
    assert axioms.relative(ours[0], truth[0]) < 1e-6 and axioms.relative(ours[1], truth[1]) < 1e-6


def test_product_rule_leaves_a_constant_nothing():
    torch.manual_seed(0)
    a, table, relevance = torch.randn(2, 3, 4).double(), torch.randn(2, 4, 5).double(), torch.randn(2, 3, 5).double()
    a.requires_grad_(True)
    y = rules.apply(rules.Product, a, table, (a @ table).detach(), rules.DEFAULT, None)
    (ours,), truth = torch.autograd.grad(y, a, relevance), torch.zeros_like(a)
    for n, i, j, k in np.ndindex(2, 3, 5, 4):
        truth[n, i, k] += (a[n, i, k] * table[n, k, j] * relevance[n, i, j] / y[n, i, j]).detach()
    assert axioms.relative(ours, truth) < 1e-6 and axioms.relative(ours.sum(), relevance.sum()) < 1e-6


def test_sum_rule_keeps_each_examples_total():
    torch.manual_seed(0)
    a, b = torch.randn(3, 4, 5).double().requires_grad_(True), torch.randn(4, 5).double().requires_grad_(True)
    relevance = torch.randn(3, 4, 5).double()
    ours, theirs = rules.summands(relevance, a, b.expand_as(a), rules.DEFAULT)
    assert axioms.relative((ours + theirs).sum((1, 2)).detach(), relevance.sum((1, 2))) < 1e-6
    alone = rules.summands(relevance[1:2], a[1:2], b[None], rules.DEFAULT)[0]
    assert axioms.relative(ours[1:2].detach(), alone.detach()) < 1e-12
    y = rules.apply(rules.Add, a, b, (a + b).detach(), rules.DEFAULT)
    assert torch.autograd.grad(y, b, relevance)[0].shape == b.shape


def test_the_default_stabiliser_has_no_pole():
    total = torch.tensor([-1e-9, 1e-9, 0.0, -2.0]).double()
    found = rules.share(torch.ones(4).double(), total, rules.DEFAULT)
    assert found.abs().max() <= 5.1e8 and found[2] == 0 and found[3] == pytest.approx(-0.5)
    assert rules.share(torch.ones(1).double(), torch.tensor([-1e-8]).double(), rules.PUBLISHED) < -1.1e8


@pytest.mark.parametrize("architecture", ["bert", "deberta-v2"])
def test_all_heads_is_transformer_attribution(load, architecture):
    subject = load(architecture)
    for mask in (HeadMask.from_array(np.ones((3, 4))), HeadMask(np.ones((3, 4)), {"nsubj": np.ones((3, 4))})):
        ours = nbsal.Explainer(subject, "mask-lrp", mask=mask)(axioms.TEXTS[0]).scores
        truth = nbsal.Explainer(subject, "transformer-attribution")(axioms.TEXTS[0]).scores
        assert axioms.relative(ours, truth) < 1e-12


def slow_passage(relevance, synt, pos, read, renormalise, empty, joint):
    """What a mask lets pass at one block of one text, with plain loops over heads."""
    parts = [torch.stack([r * s for r, s in zip(relevance, part, strict=True)]) for part in (synt, pos)]
    if not synt.any() and not pos.any():
        flows = relevance if empty == "pass" else relevance * 0
    elif not renormalise:
        flows = parts[0] + parts[1]
    else:
        sums = [float(part.sum()) for part in parts]
        whole = abs(sum(sums)) if joint else sum(map(abs, sums))
        scaled = [p * abs(s) / whole * float(relevance.sum()) / s for p, s in zip(parts, sums, strict=True) if s]
        flows = torch.stack(scaled).sum(0)
    return (relevance if read == "before" else flows), flows


READINGS = [
    {},
    {"read": "after"},
    {"renormalise": False},
    {"empty": "block"},
    {"joint": True},
    {"read": "after", "empty": "block", "joint": True},
]


@pytest.mark.parametrize("settings", READINGS, ids=str)
def test_readings_of_mask_lrp(load, settings):
    torch.manual_seed(0)
    synt = np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    pos = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    mask = HeadMask(pos, {"nsubj": synt})
    method = nbsal.Explainer(load("bert"), "mask-lrp", mask=mask, **settings).method
    passage = method.passage(None)
    full = {"read": "before", "renormalise": True, "empty": "pass", "joint": False} | settings
    relevance = torch.randn(2, 4, 5, 8).double()
    for block in range(3):
        ours = passage(block, relevance)
        for i in range(2):
            truth = slow_passage(relevance[i], synt[block], pos[block], **full)
            assert axioms.relative(ours[0][i], truth[0]) < 1e-9
            assert axioms.relative(ours[1][i], truth[1]) < 1e-9


def test_equations_are_a_reading():
    made = catalogue.create("mask-lrp@equations", mask=HeadMask.from_array(MASK))
    assert (made.read, made.empty, made.joint, made.renormalise) == ("after", "block", True, True)


def test_weights_count_relations():
    mask = HeadMask(np.zeros((1, 3)), {"nsubj": [[1, 1, 0]], "obj": [[1, 0, 0]]})
    assert mask.parts(weighted=True)[0].tolist() == [[2, 1, 0]]
    assert mask.parts()[0].tolist() == [[1, 1, 0]]


def test_transformer_attribution_is_its_formula(load):
    """From the relevance and gradients of a trace, by loops over blocks and heads."""
    subject = load("bert")
    read = trace.record(subject, subject.encode(axioms.TEXTS[0]), needs={"attention_grad"})
    n = len(read.encoded[0])
    joined = torch.eye(n).double()
    for block in range(subject.depth):
        maps = torch.eye(n).double()
        for head in range(subject.heads):
            product = read.attention_grad[block][0, head] * read.relevance_attention[block][0, head]
            maps += product.clamp_min(0) / subject.heads
        joined = maps @ joined
    ours = nbsal.Explainer(subject, "transformer-attribution")(axioms.TEXTS[0]).scores
    assert axioms.relative(ours, joined[0]) < 1e-12


def test_relevance_runs_in_float64_on_a_copy(load):
    subject = load("bert", dtype="float32")
    explain = nbsal.Explainer(subject, "lrp")
    assert explain(axioms.TEXTS[0]).scores.dtype == np.float64
    assert explain(axioms.TEXTS[0]).provenance["dtype"] == "float64" and subject.dtype == torch.float32
    rough = nbsal.Explainer(subject, "lrp", dtype="model")(axioms.TEXTS[0])
    assert rough.scores.dtype == np.float32
    both = nbsal.compare(subject, ["gradcam", "lrp"], axioms.TEXTS[:2], progress=False)
    assert {name: found[0].scores.dtype for name, found in both.items()} == {"gradcam": np.float32, "lrp": np.float64}


def test_threads_get_their_own_results(load):
    texts, found = axioms.TEXTS, {}
    explainers = [nbsal.Explainer(load(name), "transformer-attribution") for name in ("bert", "bert", "roberta")]
    truth = [explain(texts[i]).scores for i, explain in enumerate(explainers)]
    work = lambda i: found.update({i: [explainers[i](texts[i]).scores for _ in range(4)]})  # noqa: E731
    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, one in enumerate(truth):
        assert all(axioms.relative(again, one) < 1e-12 for again in found[i])


def test_mistakes_are_sentences(load):
    subject = load("bert")
    with pytest.raises(InputError, match="discover"):
        nbsal.Explainer(subject, "mask-lrp")
    with pytest.raises(InputError, match=r"\(2, 4\)"):
        nbsal.Explainer(subject, "mask-lrp", mask=HeadMask.from_array(np.ones((2, 4))))
    with pytest.raises(UnknownName, match="before, after"):
        nbsal.Explainer(subject, "mask-lrp", mask=HeadMask.from_array(MASK), read="during")
    with pytest.raises(UnknownName, match="pass, block"):
        nbsal.Explainer(subject, "mask-lrp", mask=HeadMask.from_array(MASK), empty="skip")


def test_relevance_flows_beside_the_forward_that_gradients_use(reviews, monkeypatch):
    ran, plain = [], nbsal.Subject.logits
    monkeypatch.setattr(nbsal.Subject, "logits", lambda self, inputs: ran.append(1) or plain(self, inputs))
    names = ["transformer-attribution", "mask-lrp", "lrp", "partial-lrp"]
    many = nbsal.compare(reviews, names, "A warm and funny film.")
    assert len(ran) == 1
    for name in names:
        alone = nbsal.Explainer(reviews, name)("A warm and funny film.")
        assert axioms.relative(many[name][0].scores, alone.scores) < 1e-12


def test_a_trace_is_let_go_with_all_that_relevance_flowed_through(reviews):
    read = trace.record(reviews, reviews.encode("A joy."), needs={"relevance", "attention_grad"})
    read.relevance_maps()
    left = [weakref.ref(tensor) for tensor in (*read.flow.layers, read.flow.logits)]
    gc.disable()  # nothing may need the collector, which cannot see cycles through a graph
    try:
        del read
        assert not any(one() is not None for one in left)
    finally:
        gc.enable()


def test_nothing_is_kept_of_weights_that_have_changed(load):
    subject = load("bert")
    explain = nbsal.Explainer(subject, "lrp")
    explain(axioms.TEXTS[0])
    known = mode._SIZES[subject.model][1]
    with torch.no_grad():
        subject.model.base_model.encoder.layer[0].output.dense.weight.mul_(2)
    explain(axioms.TEXTS[0])
    after = mode._SIZES[subject.model][1]
    assert len(after) == len(known) > 0 and not {*map(id, after.values())} & {*map(id, known.values())}


@pytest.mark.parametrize("name", ["lrp@published", "partial-lrp@published", "transformer-attribution@published"])
def test_published_gpt2_does_not_mix_texts(load, name):
    """The rows of all texts stand in one matrix where GPT-2's linear layers sum; totals are each text's own."""
    explain = nbsal.Explainer(load("gpt2"), name)
    for text, one in zip(axioms.TEXTS, axioms.in_one_batch(explain, axioms.TEXTS), strict=True):
        assert axioms.relative(one.scores, explain(text).scores) < 1e-9
