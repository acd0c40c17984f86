"""Files of the embedded models' weights.

The bytes of numbers in half precision are kept apart, the lower ones in one tensor and the higher ones, with sign and
exponent, in another: the higher ones repeat, so that a package compresses them.
"""

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LOW, HIGH = "low bytes", "high bytes"


def save(weights: Mapping[str, Tensor], path: Path) -> None:
    """Write weights, those in half precision with their bytes apart and others as they are."""
    from safetensors.torch import save_file

    halves = {name: weight for name, weight in weights.items() if weight.dtype == torch.float16}
    others = {name: weight for name, weight in weights.items() if name not in halves}
    low, high = torch.cat([weight.flatten() for weight in halves.values()]).view(torch.uint8).view(-1, 2).T.contiguous()
    shapes = json.dumps({name: list(weight.shape) for name, weight in halves.items()})
    save_file({LOW: low, HIGH: high, **others}, path, metadata={"shapes": shapes})


def load(path: Path) -> dict[str, Tensor]:
    """The weights of a file.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "file.safetensors"
    >>> save({"x": torch.tensor([[0.5, -2.0]]).half()}, path)
    >>> load(path)["x"].tolist()
    [[0.5, -2.0]]
    """
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        shapes: dict[str, list[int]] = json.loads(file.metadata()["shapes"])
        stored: dict[str, Any] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    halves = torch.stack([stored.pop(LOW), stored.pop(HIGH)], -1).view(torch.float16).flatten()
    parts = halves.split([prod(shape) for shape in shapes.values()])  # type: ignore[no-untyped-call]
    return {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)} | stored
