"""What is inside the model of another library."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nbsal.model.loading.usage import PLAIN, Usage


@dataclass(frozen=True)
class Opened:
    """A model that a subject takes, with the tokenizer, the labels and the usage of the library it is from."""

    model: Any
    tokenizer: Any = None
    labels: Sequence[str] | None = None
    usage: Usage = PLAIN


@dataclass(frozen=True)
class Request:
    """The arguments of `nbsal.load` that say how to read a model: see there."""

    transformer: str | None = None
    read: Any = None
    similar_to: str | None = None
    labels: Any = None
    pooling: str | None = None
    tokenizer: Any = None
