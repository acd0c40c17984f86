"""The tensors of a model that a live page runs, each with the number of bits that it keeps."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbsal.model.loading.usage import PLAIN
from nbsal.model.subject import Subject
from nbsal.support.errors import ModelError
from nbsal.support.rounding import FULL, Floats, Rounded, rounded_weights

KINDS = "BertForSequenceClassification with a softmax over its classes, without adapters"
BLOCKS, EMBEDDINGS = 8, 4  # bits
_LINEARS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention": "attention.output.dense",
    "inner": "intermediate.dense",
    "outer": "output.dense",
}
_NORMS = {"attention_norm": "attention.output.LayerNorm", "norm": "output.LayerNorm"}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a model, and to how many bits it is rounded."""

    tensor: Tensor
    bits: int

    def rounded(self) -> Rounded:
        return rounded_weights(self._array(), self.bits)

    def packed(self) -> bytes:
        """The tensor as a page reads it."""
        return self._array().astype("<f4").tobytes() if self.bits == FULL else self.rounded().packed()

    def _array(self) -> Floats:
        array: Floats = self.tensor.detach().cpu().float().numpy()
        return array


def parts_of(subject: Subject) -> dict[str, StoredTensor]:
    """The tensors of a supported model by the names under which the page finds them; ModelError for other models."""
    _check(subject)
    bert = subject.model.bert
    embeddings = bert.embeddings
    parts = {
        "tokens": StoredTensor(embeddings.word_embeddings.weight, EMBEDDINGS),
        "positions": StoredTensor(embeddings.position_embeddings.weight, BLOCKS),
        "types": StoredTensor(embeddings.token_type_embeddings.weight, FULL),
        **_norm("norm", embeddings.LayerNorm),
    }
    for number, block in enumerate(bert.encoder.layer):
        for name, path in _LINEARS.items():
            parts |= _linear(f"{number}.{name}", block.get_submodule(path))
        for name, path in _NORMS.items():
            parts |= _norm(f"{number}.{name}", block.get_submodule(path))
    parts |= _linear("pooler", bert.pooler.dense)
    parts |= _linear("classifier", subject.model.classifier, FULL)
    return parts | (_decoder_parts(subject) if subject.decodes else {})


def sizes_of(subject: Subject) -> dict[str, float]:
    config = subject.model.config
    return {
        "width": config.hidden_size,
        "depth": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "inner": config.intermediate_size,
        "vocabulary": config.vocab_size,
        "classes": config.num_labels,
        "epsilon": config.layer_norm_eps,
        "longest": subject.max_length,
    }


def _decoder_parts(subject: Subject) -> dict[str, StoredTensor]:
    head = subject.lm_head
    transform = _transform_of(head.transform)
    if transform is None or head.bias is None:
        message = f"The LM head of {subject.name} ({head.source}) is not that of a BertForMaskedLM, which a live page "
        message += "runs. Pass nbsal.load(..., lm=...) with the BERT that the model was fine-tuned from."
        raise ModelError(message, part="lm_head")
    parts = _linear("transform", transform.dense) | _norm("transform_norm", transform.LayerNorm)
    return parts | {
        "decoder.weight": StoredTensor(head.weight, EMBEDDINGS),
        "decoder.bias": StoredTensor(head.bias, FULL),
    }


def _transform_of(head: Any) -> Any:
    """What a BERT's LM head does before its last layer."""
    predictions = getattr(getattr(getattr(head, "model", None), "cls", None), "predictions", None)
    return getattr(predictions, "transform", None)


def _linear(name: str, module: Any, bits: int = BLOCKS) -> dict[str, StoredTensor]:
    return {f"{name}.weight": StoredTensor(module.weight, bits), f"{name}.bias": StoredTensor(module.bias, FULL)}


def _norm(name: str, module: Any) -> dict[str, StoredTensor]:
    return {f"{name}.weight": StoredTensor(module.weight, FULL), f"{name}.bias": StoredTensor(module.bias, FULL)}


def _check(subject: Subject) -> None:
    """Refuse a model that a live page would not run as Python does."""
    kind = type(subject.model).__name__
    is_plain = subject.usage == PLAIN and subject.activation == "softmax" and not hasattr(subject.model, "peft_config")
    if kind != "BertForSequenceClassification" or not is_plain or not _has_sizes(subject.model.config):
        message = f"A live page cannot run {subject.name} ({kind}): it runs {KINDS}. Use to_html(interactive=True) for "
        message += "a page that shows the saved explanation, or show the view in a notebook, where Python answers."
        raise ModelError(message, part="model")


def _has_sizes(config: Any) -> bool:
    """Whether the page can run an encoder of these sizes, of which it multiplies four numbers at once."""
    sizes = (config.hidden_size // config.num_attention_heads, config.intermediate_size)
    return config.hidden_act == "gelu" and not config.is_decoder and not any(size % 4 for size in sizes)
