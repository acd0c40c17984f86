"""Rules one by one, by loops over single numbers."""

import torch

from nbsal.lrp import rules

RNG = torch.Generator().manual_seed(0)


def drawn(*shape):
    return torch.randn(*shape, generator=RNG, dtype=torch.float64)


def test_the_published_stabiliser_meets_its_own_pole():
    total = torch.tensor([-rules.TINY, 2.0], dtype=torch.float64)
    found = rules.share(torch.ones_like(total), total, rules.PUBLISHED)
    assert found.isfinite().all() and found[0] == 1 / rules.TINY


def test_what_was_broadcast_is_summed_back_in_its_shape():
    many = drawn(4, 2, 3)
    for shape, truth in (((2, 1), many.sum((0, 2))[:, None]), ((1, 3), many.sum((0, 1))[None]), ((2, 3), many.sum(0))):
        found = rules.unbroadcast(many, torch.Size(shape))
        assert found.shape == shape and torch.allclose(found, truth)


def test_transposed_layers_as_published():
    """The bias takes its share, by totals over all rows; of the product's, half goes to the weights."""
    x, weight, bias, relevance = drawn(3, 4).requires_grad_(), drawn(4, 5), drawn(5), drawn(3, 5)
    y = rules.apply(rules.Transposed, bias, x, weight, (x @ weight + bias).detach(), rules.PUBLISHED, 1)
    (found,) = torch.autograd.grad(y, x, relevance)
    product = (x @ weight).detach()
    share = relevance / (product + bias)
    mine, other = float((share * bias).sum()), float((share * product).sum())
    scale = abs(other) / (abs(mine) + abs(other)) * float(relevance.sum()) / other
    truth = torch.zeros(3, 4).double()
    for row in range(3):
        for out in range(5):
            given = share[row, out] * product[row, out] * scale / product[row, out]
            for into in range(4):
                truth[row, into] += given * x[row, into].item() * weight[into, out] / 2
    assert torch.allclose(found, truth, rtol=1e-6)


def test_hidden_positions_take_nothing_through_a_softmax():
    x = torch.tensor([[1.0, 2.0, -torch.inf]]).double().requires_grad_()
    y = rules.apply(rules.Softmax, x, x.detach().softmax(-1))
    (found,) = torch.autograd.grad(y, x, torch.tensor([[1.0, 0.5, 0.0]]).double())
    assert found[0, 2] == 0 and torch.allclose(found[0, :2], x[0, :2] * (torch.tensor([1, 0.5]) - 1.5 * y[0, :2]))
