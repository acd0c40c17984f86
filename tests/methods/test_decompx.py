"""DecompX: its vectors sum to hidden states and logits, and equal a slow replica written from the paper's formulas.

The replica reads the states of the stock model by hooks, where the method sums its own vectors.
"""

import pytest
import torch

import nbsal
from nbsal.methods.alti import PARTS
from nbsal.methods.decompx import DecompX
from nbsal.model.running.architecture import blocks
from nbsal.passes import trace
from tests import axioms, zoo
from tests.cases import cases
from tests.raising import refuses_part

TEXT = axioms.TEXTS[0]
STOCK = [name for name in zoo.ENCODERS if name in PARTS]


@pytest.mark.some(4)
@pytest.mark.parametrize("head", ["sequence", "token", "span"])
@pytest.mark.parametrize("architecture", STOCK)
def test_vectors_sum_to_hidden_states_and_scores_to_the_target(load, architecture, head, monkeypatch):
    monkeypatch.setattr("nbsal.methods.decompx.CHUNK", 3 * 20 * 48)  # three positions or so
    subject = load(architecture, head)
    target = {"sequence": nbsal.contrast(0, 2), "token": (4, 1), "span": (9, 12)}[head]
    encoded = subject.encode(("Who wrote it?", "The film is a warm joy.") if head == "span" else TEXT)
    recorded = trace.record(subject, encoded, [target], needs={"hidden", "attention"})
    places = list(range(len(encoded[0])))
    for layer, hidden in recorded.hidden.items():
        vectors = DecompX().vectors(recorded, 0, places, layer)
        assert vectors.shape == (len(places), *hidden[0].shape)
        assert axioms.relative(vectors.sum(1), hidden[0]) < 1e-9
    scores = DecompX().scores(recorded)[0]
    assert abs(scores.sum() - recorded.values[0]) < 1e-9 * scores.abs().sum()


def divide(vectors, bias):
    """Add to each vector its share of a bias."""
    sizes = [abs(float(vector @ bias)) for vector in vectors]
    return [vector + size / sum(sizes) * bias for vector, size in zip(vectors, sizes, strict=True)]


def linear(vectors, layer):
    return divide([layer.weight @ vector for vector in vectors], layer.bias)


def norm(vectors, layer, state):
    scale = (((state - state.mean()) ** 2).mean() + layer.eps).sqrt()
    return divide([layer.weight * (vector - vector.mean()) / scale for vector in vectors], layer.bias)


def slow_block(block, vectors, attention, seen, first):
    value, out = block.attention.self.value, block.attention.output.dense
    heads = len(attention)
    rows = [each.chunk(heads) for each in (value.weight, value.bias)]
    columns = out.weight.chunk(heads, 1)
    result = []
    for i in range(len(vectors)):
        sums = []
        for j in range(len(vectors)):
            total = vectors[i][j]
            for s in range(len(vectors)):
                for h in range(heads):
                    sent = rows[0][h] @ vectors[s][j] + (rows[1][h] if first and s == j else 0)
                    total = total + attention[h, i, s] * (columns[h] @ sent)
            sums.append(total)
        sums = divide(sums, out.bias if first else out.weight @ value.bias + out.bias)
        sums = norm(sums, block.attention.output.LayerNorm, seen[block.attention.output.LayerNorm][0][0, i])
        before, after = (each[0, i] for each in seen[block.intermediate.intermediate_act_fn])
        inner = [vector * after / before for vector in linear(sums, block.intermediate.dense)]
        outer = linear(inner, block.output.dense)
        sums = [a + b for a, b in zip(sums, outer, strict=True)]
        result.append(norm(sums, block.output.LayerNorm, seen[block.output.LayerNorm][0][0, i]))
    return result


@torch.no_grad()
def slow_decompx(subject, encoded):
    """The scores of every label, [token, label], of one text."""
    model, seen = subject.twin, {}
    watched = [module for module in model.modules() if not list(module.children())]
    hooks = [m.register_forward_hook(lambda m, args, output: seen.update({m: (args[0], output)})) for m in watched]
    recorded = trace.record(subject, encoded, needs={"hidden", "attention"})
    for hook in hooks:
        hook.remove()
    size = range(len(encoded[0]))
    vectors = [[recorded.hidden[0][0, i] * (i == j) for j in size] for i in size]
    for number, block in enumerate(blocks(model)):
        vectors = slow_block(block, vectors, recorded.attention[number][0], seen, number == 0)
    roberta = model.config.model_type == "roberta"
    first, last = (model.classifier.dense, model.classifier.out_proj) if roberta else (None, model.classifier)
    first = first or model.bert.pooler.dense
    before = seen[first][1].reshape(-1, first.out_features)[0]
    return torch.stack(linear([v * before.tanh() / before for v in linear(vectors[0], first)], last))


@cases("architecture", ["bert", "roberta"])
def test_decompx_equals_a_slow_replica(load, architecture):
    subject = load(architecture)
    torch.manual_seed(0)
    for parameter in subject.model.parameters():  # stock models begin with biases of 0
        parameter.data += 0.1 * torch.randn_like(parameter)
    truth = slow_decompx(subject, subject.encode("A warm joy."))
    for label in range(3):
        ours = nbsal.Explainer(subject, "decompx")("A warm joy.", target=label).scores
        assert axioms.relative(ours, truth[:, label]) < 1e-9


def test_heads_that_compute_something_else_are_refused(load):
    subject = load("roberta")
    subject.model.classifier.register_forward_hook(lambda module, args, output: 2 * output)
    with refuses_part("head"):
        nbsal.Explainer(subject, "decompx")(TEXT)
    with refuses_part("head"):
        nbsal.Explainer(load("bert", "masked"), "decompx")
    with refuses_part("post-norm blocks"):
        nbsal.Explainer(load("gpt2"), "decompx")
