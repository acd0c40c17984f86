"""How a library uses the model inside it: what it does to a text before the model, and to the outputs after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nbsal.support.errors import ModelError
from nbsal.support.lazy import Tensor

PREDICTS_TOKENS = ("next-token", "masked", "reply")  # tasks whose outputs are the vocabulary


@dataclass(frozen=True)
class ZeroShot:
    """How a model of entailment classifies: each label makes a hypothesis, which a text entails more or less.

    With `multi_label`, entailment is compared with contradiction for each label, else with that of the other labels.
    """

    labels: tuple[str, ...]
    template: str
    entailment: int
    multi_label: bool = False

    def hypothesis(self, label: int) -> str:
        """The sentence that the text must entail for a label."""
        return self.template.format(self.labels[label])

    def pairs(self, text: str) -> list[tuple[str, str]]:
        return [(text, self.hypothesis(label)) for label in range(len(self.labels))]

    def label(self, pair: tuple[str, ...]) -> int:
        """The label whose hypothesis is in a pair."""
        return [self.hypothesis(label) for label in range(len(self.labels))].index(pair[1])

    @property
    def contrasts(self) -> bool:
        """True if each label is decided by itself, against contradiction."""
        return self.multi_label or len(self.labels) == 1

    def terms(self, outputs: int) -> tuple[tuple[tuple[int, ...], float], ...]:
        """What is explained of a pair, as (index, weight) of its logits."""
        entailed: tuple[tuple[int, ...], float] = ((self.entailment,), 1.0)
        return (entailed, ((self._contradiction(outputs),), -1.0)) if self.contrasts else (entailed,)

    def probabilities(self, logits: Tensor) -> Tensor:
        """The probability of each label, from the logits of its pair, [label, output]."""
        if not self.contrasts:
            return logits[:, self.entailment].softmax(0)
        return logits[:, [self._contradiction(logits.shape[1]), self.entailment]].softmax(1)[:, 1]

    def _contradiction(self, outputs: int) -> int:
        """As the pipeline has it: the first output, or the last one where the first is entailment."""
        return outputs - 1 if self.entailment == 0 else 0


@dataclass(frozen=True)
class Preprocessing:
    """What a library around a model adds to it.

    `longest` is the maximum number of tokens, `prompt` a text that it puts before each text, `activation` what it makes
    of the logits: "softmax", "sigmoid" or "none" (scores without probabilities). None leaves it to the model.
    `zero_shot` are the labels of a model of entailment.
    """

    longest: int | None = None
    prompt: str = ""
    activation: str | None = None
    zero_shot: ZeroShot | None = None


PLAIN = Preprocessing()  # what the model itself says


@dataclass(frozen=True)
class OpenedModel:
    """A model that a subject takes, with the tokenizer, the labels and the usage of the library it is from."""

    model: Any
    tokenizer: Any = None
    labels: Sequence[str] | None = None
    usage: Preprocessing = PLAIN


@dataclass(frozen=True)
class LoadArguments:
    """The arguments of `nbsal.load` that say how to read a model: see there."""

    transformer: str | None = None
    read: Any = None
    similar_to: str | None = None
    labels: Any = None
    pooling: str | None = None
    tokenizer: Any = None


def zero_shot(labels: Sequence[str], template: str, config: Any, multi_label: bool) -> ZeroShot:
    """The labels for a model of that configuration, which must name an output entailment."""
    for index, name in sorted(config.id2label.items()):
        if str(name).lower().startswith("entail"):
            return ZeroShot(tuple(labels), template, int(index), multi_label)
    message = "No output of the model is named entailment, which zero-shot classification reads. Set config.id2label."
    raise ModelError(message, part="id2label")
