"""Low-rank weight deltas: attached while training, collected for shipping, merged on loading."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from nbsal.errors import WeightsError

LINEARS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


class LowRank(nn.Module):
    """A frozen linear layer plus the product of two thin matrices that learn."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        self.scale = 2.0  # LoRA's alpha over rank; folded into B when collected
        self.A = nn.Parameter(torch.randn(rank, linear.in_features) / math.sqrt(linear.in_features))
        self.B = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        whole: Tensor = self.linear(x)
        return whole + (x @ self.A.T) @ (self.B.T * self.scale)


def attach(body: nn.Module, rank: int) -> None:
    """Freeze the body and let every linear layer of its blocks learn a low-rank delta."""
    body.requires_grad_(False)
    for block in body.encoder.layer:  # type: ignore[union-attr]
        for path in LINEARS:
            parent, _, leaf = path.rpartition(".")
            owner = block.get_submodule(parent)
            setattr(owner, leaf, LowRank(getattr(owner, leaf), rank))


def collect(model: nn.Module) -> dict[str, Tensor]:
    """What was learnt, in half precision: thin factors as NAME.A and NAME.B, all else whole."""
    factors: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, LowRank):
            factors[f"{name}.A"], factors[f"{name}.B"] = module.A, module.B * module.scale
    whole = {name: p for name, p in model.named_parameters() if p.requires_grad and name not in factors}
    return {name: value.detach().half().contiguous() for name, value in (factors | whole).items()}


def averaged(deltas: Sequence[Mapping[str, Tensor]], rank: int) -> dict[str, Tensor]:
    """The mean of several deltas of one body, its low-rank parts cut back to `rank`.

    Runs that differ by their seeds alone end close enough for their mean to generalise better than any of them.
    """
    mean: dict[str, Tensor] = {}
    for name in deltas[0]:
        base, _, factor = name.rpartition(".")
        if factor == "A":
            products = [delta[f"{base}.B"].float() @ delta[name].float() for delta in deltas]
            left, sizes, right = torch.linalg.svd(torch.stack(products).mean(0), full_matrices=False)
            root = sizes[:rank].sqrt()
            mean[name], mean[f"{base}.B"] = root[:, None] * right[:rank], left[:, :rank] * root
        elif factor != "B":
            mean[name] = torch.stack([delta[name].float() for delta in deltas]).mean(0)
    return {name: value.half().contiguous() for name, value in mean.items()}


@torch.no_grad()
def merge(model: nn.Module, delta: Mapping[str, Tensor]) -> None:
    """Add a collected delta to a stock model's own weights; heads and poolers it lacks are passed over."""
    parameters = dict(model.named_parameters())
    for name, value in delta.items():
        base, _, factor = name.rpartition(".")
        stock = f"{base}.weight" if factor in ("A", "B") else name
        if name.startswith("bert.encoder.") and stock not in parameters:
            raise WeightsError(f"The delta holds {name}, which this body has not: it belongs to another one.")
        if factor == "A" and f"{base}.weight" in parameters:
            parameters[f"{base}.weight"].add_(delta[f"{base}.B"].float() @ value.float())
        elif name in parameters:
            parameters[name].copy_(value)
