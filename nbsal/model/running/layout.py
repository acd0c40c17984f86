"""Checks that what a forward pass records is complete, and laid out by text and position."""

from collections.abc import Sequence

from torch import Tensor

from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded
from nbsal.support.errors import ModelError


def unpad(logits: Tensor, encoded: Encoded) -> list[Tensor]:
    """The logits of each text, without those at padding."""
    rows = zip(encoded, logits, strict=True)
    return [row_logits[: len(row)] if row_logits.ndim > 1 else row_logits for row, row_logits in rows]


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
