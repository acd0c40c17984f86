"""Linear layers at the processor's rate: the same numbers, the same gradients, and nothing left behind."""

import gc

import numpy as np
import pytest
import torch
from torch import nn

import nbsal
from nbsal.model.running import architecture, products, weight_copies
from nbsal.support.errors import UnknownName
from tests.cases import cases
from tests.raising import refuses

BOUNDS = {"decoded-gradcam": 1e-5}  # it multiplies with probabilities: exponentials of logits near 15
METHODS = ("decoded-gradcam", "gradcam", "integrated", "occlusion", "lrp")
TEXTS = ["A warm and affecting film.", "A dull, endless bore that nobody needs; the plot hardly moves at all."]


@pytest.fixture
def setting(monkeypatch):
    return lambda value: monkeypatch.setenv(products.SETTING, value)


@pytest.fixture
def calls(monkeypatch, setting):
    """The shapes of all products by oneDNN, which is always chosen."""
    setting("onednn")
    shapes, product = [], products._product

    def record(x, weight, bias):
        shapes.append((*x.shape[:-1], *weight.shape))
        return product(x, weight, bias)

    monkeypatch.setattr(products, "_product", record)
    return shapes


@pytest.fixture
def layer():
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(192, 256).requires_grad_(False)
    layer.weight.copy_(torch.randn(256, 192, generator=generator))
    return layer


@pytest.fixture(params=[8, 80])
def x(request):
    return torch.randn(request.param, 192, generator=torch.Generator().manual_seed(1))


def close(a, b, tolerance=5e-6):
    return bool((a - b).abs().max() <= tolerance * b.abs().max())


@pytest.mark.some(1)
@pytest.mark.parametrize("method", METHODS)
def test_scores_are_those_of_torch(calls, setting, method, reviews):
    explain = nbsal.Explainer(reviews, method)
    quick = [explain(text) for text in TEXTS]
    assert calls
    batch = explain.map(TEXTS, progress=False)
    setting("torch")
    for text, one, same in zip(TEXTS, quick, batch, strict=True):
        own = explain(text).scores
        size = np.abs(own).max()
        if method == "occlusion":  # its scores are differences of logits, and as exact as these
            size = max(size, float(reviews.logits(reviews.inputs(reviews.encode(text))).abs().max()))
        bound = BOUNDS.get(method, 5e-6) * size
        assert np.abs(one.scores - own).max() <= bound
        assert np.abs(one.scores - same.scores).max() <= bound


def test_transposed_layers_use_it(calls):
    import transformers

    size = {"n_embd": 192, "n_layer": 1, "n_head": 4, "vocab_size": 50, "n_positions": 32}
    model = transformers.GPT2Model(transformers.GPT2Config(**size)).eval()
    ids = torch.arange(20)[None]
    with torch.no_grad():
        own = model(ids).last_hidden_state
        with architecture.eval_mode(model):
            quick = model(ids).last_hidden_state
    assert len(calls) == 4
    assert close(quick, own)


@cases("rows", [3, 8, 80])
def test_products_and_gradients(setting, layer, rows):
    setting("onednn")
    x = torch.randn(rows, 192, requires_grad=True)
    y, own = products.linear(x, layer.weight, layer.bias), layer(x)
    cotangents = torch.randn(5, rows, 256)
    assert close(y, own)
    gradients = [torch.autograd.grad(z, x, cotangents[0], retain_graph=True)[0] for z in (y, own)]
    assert close(*gradients)
    batched = [torch.autograd.grad(z, x, cotangents, is_grads_batched=True, retain_graph=True)[0] for z in (y, own)]
    assert close(*batched)
    curved = [torch.autograd.grad((z**3).sum(), x, create_graph=True)[0].sum() for z in (y, own)]
    assert close(*(torch.autograd.grad(total, x)[0] for total in curved))


@pytest.mark.parametrize("change", ["double", "few rows", "small", "autocast", "off"])
def test_the_rest_is_left_to_torch(calls, setting, layer, x, change):
    if change == "double":
        layer, x = layer.double(), x.double()
    if change == "few rows":
        x = x[:3]
    if change == "small":
        layer = nn.Linear(192, 4).requires_grad_(False)
    if change == "off":
        setting("torch")
    with architecture.eval_mode(layer), torch.autocast("cpu", torch.bfloat16, enabled=change == "autocast"):
        layer(x)
    assert not calls


def test_the_quicker_one_is_chosen(monkeypatch, setting, layer, x):
    setting("auto")
    for quicker in (True, False):
        monkeypatch.setattr(products, "is_quicker", lambda size, threads, quicker=quicker: quicker)
        assert products.suits(x, layer.weight, layer.bias) == quicker


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_the_measurement_compares_both_and_leaves_no_trace(monkeypatch, layer, ratio):
    """Also where a mode is active, which would run one product in place of the other."""
    seconds = {torch.nn.functional.linear: 1.0, products._product: ratio}
    monkeypatch.setattr(products, "_seconds", lambda function, *args: function(*args).numel() and seconds[function])
    used, linear = [], products.linear
    monkeypatch.setattr(products, "linear", lambda *args: used.append(1) or linear(*args))
    before = torch.get_rng_state()
    products.is_quicker.cache_clear()
    with architecture.eval_mode(layer):
        assert products.is_quicker(4, 1) == (ratio < 1)
    products.is_quicker.cache_clear()
    assert not used and torch.equal(torch.get_rng_state(), before)


def test_an_unknown_setting_is_refused(setting, reviews):
    setting("quick")
    with refuses(products.SETTING, UnknownName):
        nbsal.Explainer(reviews, "gradcam")(TEXTS[0])


CHANGES = {
    "in place": lambda weight: weight.mul_(2),
    "through .data": lambda weight: weight.data.mul_(2),
    "through numpy": lambda weight: np.multiply(weight.numpy(), 2, out=weight.numpy()),
}


@cases("change", CHANGES)
def test_copies_follow_the_weights(calls, layer, change):
    x = torch.randn(8, 192)
    with architecture.eval_mode(layer):
        before = layer(x) - layer.bias
        CHANGES[change](layer.weight)
        assert close(layer(x) - layer.bias, 2 * before)


def test_copies_have_limited_room_and_go_with_their_weights(calls, layer, monkeypatch):
    x, start = torch.randn(8, 192), weight_copies.copied_bytes()
    own = layer(x)
    monkeypatch.setattr(weight_copies, "LIMIT", start)
    with architecture.eval_mode(layer):
        assert close(layer(x), own)
    assert weight_copies.copied_bytes() == start
    monkeypatch.setattr(weight_copies, "LIMIT", start + layer.weight.nbytes)
    with architecture.eval_mode(layer):
        assert close(layer(x), own)
    assert weight_copies.copied_bytes() == start + layer.weight.nbytes
    del layer.weight
    gc.collect()
    assert weight_copies.copied_bytes() == start
