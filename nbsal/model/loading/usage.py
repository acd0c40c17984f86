"""How a library uses a model: what it does to a text before the model, and to the outputs after it."""

from dataclasses import dataclass
from typing import Any

PREDICTS_TOKENS = ("next-token", "masked", "reply")  # tasks whose outputs are the vocabulary


@dataclass(frozen=True)
class Usage:
    """What a library around a model adds to it.

    `longest` is the maximum number of tokens, `prompt` a text that it puts before each text, `activation` what it makes
    of the logits: "softmax", "sigmoid" or "none" (scores without probabilities). None leaves it to the model.
    `zero_shot`, a `ZeroShot`, are the labels of a model of entailment.
    """

    longest: int | None = None
    prompt: str = ""
    activation: str | None = None
    zero_shot: Any = None


PLAIN = Usage()  # what the model itself says
