"""Low-rank weight deltas (LoRA), which are attached to train, collected to save and merged to load a model."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from nbsal.support.errors import WeightsError

LINEARS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


class LowRank(nn.Module):
    """A frozen linear layer plus the product of two trainable thin matrices."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        self.scale = 2.0  # LoRA's alpha over rank; folded into B when collected
        self.A = nn.Parameter(torch.randn(rank, linear.in_features) / math.sqrt(linear.in_features))
        self.B = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.linear(x)
        return output + (x @ self.A.T) @ (self.B.T * self.scale)


def attach(body: nn.Module, rank: int) -> None:
    """Freeze the model and add a trainable low-rank update (LoRA) to every linear layer of its blocks."""
    body.requires_grad_(False)
    for block in body.encoder.layer:  # type: ignore[union-attr]
        for path in LINEARS:
            parent, _, leaf = path.rpartition(".")
            owner = block.get_submodule(parent)
            setattr(owner, leaf, LowRank(getattr(owner, leaf), rank))


def collect(model: nn.Module) -> dict[str, Tensor]:
    """The trained parameters in half precision: low-rank factors as NAME.A and NAME.B, others under their own name."""
    factors: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, LowRank):
            factors[f"{name}.A"], factors[f"{name}.B"] = module.A, module.B * module.scale
    others = {name: p for name, p in model.named_parameters() if p.requires_grad and name not in factors}
    return {name: value.detach().half().contiguous() for name, value in (factors | others).items()}


def averaged(deltas: Sequence[Mapping[str, Tensor]], rank: int) -> dict[str, Tensor]:
    """The mean of several deltas of one body, with its low-rank parts reduced to `rank`.

    The mean of runs that differ only in their seeds generalises better than any of them.
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
    """Add a collected delta to the weights of a stock model, except for a head or pooler that the model lacks."""
    parameters = dict(model.named_parameters())
    for name, value in delta.items():
        base, _, factor = name.rpartition(".")
        stock = f"{base}.weight" if factor in ("A", "B") else name
        if name.startswith("bert.encoder.") and stock not in parameters:
            raise WeightsError(f"The delta has weights for {name}, but this model has no such part.")
        if factor == "A" and f"{base}.weight" in parameters:
            parameters[f"{base}.weight"].add_(delta[f"{base}.B"].float() @ value.float())
        elif name in parameters:
            parameters[name].copy_(value)
