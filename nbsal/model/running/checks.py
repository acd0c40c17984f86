"""Refuse weights, and what a forward pass records, that no explanation can be made of."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nbsal.model.running.architecture import META_DEVICE
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded
from nbsal.support.errors import ModelError


def check_weights(model: nn.Module) -> None:
    """Refuse a model with NaN or infinite weights."""
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise ModelError(f"The weight {name} {META_DEVICE}", part=name)
        # Quantised weights of other libraries are tensors of a class of their own, which may lack this operation.
        if type(parameter.data) is torch.Tensor and not is_finite(parameter):
            raise ModelError(f"The weight {name} contains NaN or infinity, so no explanation is possible.", part=name)


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor holds neither NaN nor infinity.

    Its extremes tell, ten times as fast as a look at every number.
    """
    if not tensor.numel():
        return True
    extremes = torch.aminmax(tensor.float() if tensor.dtype.itemsize == 1 else tensor)  # 8 bits have no order
    return all(map(math.isfinite, map(Tensor.item, extremes)))


def check_finite(*tensors: Tensor) -> None:
    """Refuse to rank tokens by NaN."""
    if not all(map(is_finite, tensors)):
        raise ModelError(
            "The model's output or its gradient is NaN or infinite for this text. Check the weights. If the "
            'precision overflows, load the model with dtype="float32".',
            part="output",
        )


def check_count(part: str, count: int, expected: int, subject: Subject) -> None:
    """Refuse a forward pass in which some blocks were not recorded, or some were recorded twice."""
    if not count and part == "attention maps":
        message = f"{type(subject.model).__name__} has no plain attention to read. Use a gradient method or occlusion."
        raise ModelError(message, part=part)
    if count != expected:
        raise ModelError(
            f"{type(subject.model).__name__} produced {count} {part} instead of {expected}: its forward pass does not "
            f"run each of its {subject.depth} blocks once, or computes attention without a softmax.",
            part=part,
        )


def check_sides(
    part: str, shapes: Sequence[Sequence[int]], expected: Sequence[Sequence[int]], subject: Subject
) -> None:
    """Refuse tensors of an encoder-decoder that are not those of its source's and its reply's positions."""
    if [tuple(shape) for shape in shapes] != [tuple(shape) for shape in expected]:
        raise _wrong_layout(part, subject)


def check_layout(part: str, shapes: Sequence[Sequence[int]], encoded: Encoded, subject: Subject) -> None:
    """Refuse tensors that are not laid out by text and position, which would be assigned to wrong positions."""
    for texts, *places in shapes:
        if texts != len(encoded) or len(set(places)) > 1 or places[0] < encoded.longest:
            raise _wrong_layout(part, subject)


def _wrong_layout(part: str, subject: Subject) -> ModelError:
    message = (
        f"The {part} of {type(subject.model).__name__} are not laid out by text and position. Use a method that needs "
        "other parts of the model (see `nbsal methods`), or none, such as occlusion."
    )
    return ModelError(message, part=part)
