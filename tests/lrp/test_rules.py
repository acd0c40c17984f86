"""Single rules, against loops over numbers."""

import pytest
import torch

from nbsal.passes.lrp import rules

RNG = torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def seeded():
    RNG.manual_seed(0)


def random(*shape):
    return torch.randn(*shape, generator=RNG, dtype=torch.float64)


def test_the_published_epsilon_is_finite_where_it_cancels_the_denominator():
    total = torch.tensor([-rules.EPSILON, 2.0], dtype=torch.float64)
    shares = rules.share(torch.ones_like(total), total, rules.PUBLISHED)
    assert shares.isfinite().all() and shares[0] == 1 / rules.EPSILON


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
