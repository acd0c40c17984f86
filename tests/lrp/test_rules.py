"""Single rules, against loops over numbers."""

import numpy as np
import pytest
import torch

from nbsal.passes.lrp import rules
from tests import axioms

RNG = torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def seeded():
    RNG.manual_seed(0)


def random(*shape):
    return torch.randn(*shape, generator=RNG, dtype=torch.float64)


def test_no_epsilon_cancels_a_denominator():
    total = torch.tensor([-rules.EPSILON, rules.EPSILON, 0.0, -2.0]).double()
    shares = rules.divide(torch.ones(4).double(), total, rules.DEFAULT)
    assert shares.abs().max() <= 5.1e8 and shares[2] == 0 and shares[3] == pytest.approx(-0.5)
    cancelled = torch.tensor([-rules.EPSILON, -1e-8], dtype=torch.float64)
    published = rules.divide(torch.ones(2).double(), cancelled, rules.PUBLISHED)
    assert published[0] == 1 / rules.EPSILON and published[1] < -1.1e8


@pytest.mark.parametrize("texts", [1, 2])
def test_transposed_layers_as_published(texts):
    """The bias gets its share, by totals over all rows of a text; half of the product's share goes to the weights."""
    x, weight, bias, relevance = random(6, 4).requires_grad_(), random(4, 5), random(5), random(6, 5)
    y = rules.apply(rules.AddMM, bias, x, weight, (x @ weight + bias).detach(), rules.PUBLISHED, texts)
    (ours,) = torch.autograd.grad(y, x, relevance)
    product = (x @ weight).detach()
    share = relevance / (product + bias)
    truth, smallest = torch.zeros(6, 4).double(), float(torch.cat([product, product + bias]).abs().min())
    for rows in torch.arange(6).chunk(texts):
        bias_sum, product_sum = float((share * bias)[rows].sum()), float((share * product)[rows].sum())
        smallest = min(smallest, abs(product_sum), abs(bias_sum) + abs(product_sum))
        scale = abs(product_sum) / (abs(bias_sum) + abs(product_sum)) * float(relevance[rows].sum()) / product_sum
        for row in rows.tolist():
            for out in range(5):
                factor = share[row, out] * product[row, out] * scale / product[row, out]
                for column in range(4):
                    truth[row, column] += factor * x[row, column].item() * weight[column, out] / 2
    # The rule adds epsilon to each of four denominators; these numbers do not.
    assert (ours - truth).abs().max() < 4 * rules.EPSILON / smallest * truth.abs().max()


def test_epsilon_is_added_to_the_sum_of_positive_contributions():
    """Contributions as small as epsilon receive half of the relevance."""
    x, weight = torch.tensor([[rules.EPSILON, 2.0]]).double().requires_grad_(), torch.tensor([[1.0, 0.0]]).double()
    y = rules.apply(rules.Linear, x, weight, None, x.detach() @ weight.T, rules.DEFAULT, (weight, weight.abs()))
    (ours,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(ours, torch.tensor([[0.5, 0.0]]).double())


def positive_linear(relevance, x, weight):
    """The linear rule for one row, by loops: the relevance of an output is distributed over positive contributions."""
    result = torch.zeros_like(x)
    for o in range(len(weight)):
        contributions = x * weight[o]
        positive = contributions.clamp_min(0)
        if positive.sum() > 0:
            result += relevance[o] * positive / positive.sum()
    return result


def test_linear_rule():
    x, weight, bias, relevance = random(5, 7).requires_grad_(), random(6, 7), random(6), random(5, 6)
    y = rules.apply(rules.Linear, x, weight, bias, x.detach() @ weight.T + bias, rules.DEFAULT, (weight, weight.abs()))
    assert torch.equal(y, torch.nn.functional.linear(x, weight, bias))
    (ours,) = torch.autograd.grad(y, x, relevance)
    truth = torch.stack([positive_linear(r, row, weight) for r, row in zip(relevance, x.detach(), strict=True)])
    assert axioms.relative(ours, truth) < 1e-8


def test_product_rule():
    a, b, relevance = random(2, 3, 4).requires_grad_(), random(2, 4, 5).requires_grad_(), random(2, 3, 5)
    y = rules.apply(rules.MatMul, a, b, (a @ b).detach(), rules.DEFAULT, None)
    ours = torch.autograd.grad(y, (a, b), relevance)
    truth = torch.zeros_like(a), torch.zeros_like(b)
    for n, i, j, k in np.ndindex(2, 3, 5, 4):
        part = (a[n, i, k] * b[n, k, j] * relevance[n, i, j] / y[n, i, j] / 2).detach()
        truth[0][n, i, k] += part
        truth[1][n, k, j] += part
    assert axioms.relative(ours[0], truth[0]) < 1e-6 and axioms.relative(ours[1], truth[1]) < 1e-6
