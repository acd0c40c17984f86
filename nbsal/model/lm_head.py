"""LanguageHead: the pretrained LM head as a decoder of any hidden layer.

The vocabulary is visited a chunk at a time with a running logsumexp, and only the columns that are asked for are kept:
the matrix of all positions by all tokens never exists.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbsal.errors import LanguageHeadError
from nbsal.model import architecture

CHUNK = 4096  # vocabulary entries visited at a time
ROWS = 2048  # hidden states visited at a time: a chunk of logits stays near 32 MB

HINT = (
    "Pass the pretrained checkpoint this model was fine-tuned from, for example "
    'nbsal.load(model, lm="roberta-base") or lm="path/to/the/pretrained", or lm="tied" to decode with '
    "the model's own input embeddings."
)


class _Passage(nn.Module):
    """Stands where a body was: returns the hidden states it is given, past the final norm."""

    def __init__(self, norm: nn.Module | None) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, *args: Any, inputs_embeds: Tensor, **kwargs: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions as Output

        return Output(last_hidden_state=inputs_embeds if self.norm is None else self.norm(inputs_embeds))


@dataclass(frozen=True)
class LMHead:
    """What turns hidden states [rows, width] into logits over the vocabulary.

    `transform` is all the head does before its last linear map; `weight` and `bias` are that map. They are the model's
    own weights, and change with it.
    """

    transform: nn.Module
    weight: Tensor
    bias: Tensor | None
    source: str

    @property
    def vocabulary(self) -> int:
        """The number of tokens it knows."""
        return self.weight.shape[0]

    def to(self, device: torch.device, dtype: torch.dtype) -> "LMHead":
        """The same head on another device or in another precision."""
        transform = copy.deepcopy(self.transform).to(device=device, dtype=dtype)
        bias = None if self.bias is None else self.bias.detach().to(device, dtype)
        return LMHead(transform, self.weight.detach().to(device, dtype), bias, self.source)

    @property
    def stamp(self) -> tuple[Any, ...]:
        """What differs once a weight does, or the head is moved."""
        last = [self.weight] if self.bias is None else [self.weight, self.bias]
        written = tuple((tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in last)
        return *architecture.weights_version(self.transform), *written

    @torch.no_grad()
    def features(self, hidden: Tensor) -> Tensor:
        """What the last linear map reads, for hidden states [rows, width]."""
        features: Tensor = self.transform(hidden)
        return features

    @torch.no_grad()
    def logits(self, features: Tensor, columns: Tensor) -> Tensor:
        """Logits [rows, columns] of those token ids alone."""
        bias = None if self.bias is None else self.bias[columns]
        return nn.functional.linear(features, self.weight[columns], bias)

    @torch.no_grad()
    def log_normaliser(self, features: Tensor, coarse: bool = False) -> Tensor:
        """log of the softmax's denominator for each row; `coarse` multiplies in bfloat16."""
        dtype = torch.bfloat16 if coarse else features.dtype
        total = features.new_full((len(features),), -torch.inf)
        for first in range(0, self.vocabulary, CHUNK):
            chunk = slice(first, first + CHUNK)
            weight = self.weight[chunk].to(dtype).T
            bias = None if self.bias is None else self.bias[chunk]
            for start in range(0, len(features), ROWS):
                rows = slice(start, start + ROWS)
                logits = (features[rows].to(dtype) @ weight).to(features.dtype)
                part = (logits if bias is None else logits.add_(bias)).logsumexp(-1)
                total[rows] = torch.logaddexp(total[rows], part)
        return total

    def probabilities(self, hidden: Tensor, columns: Tensor) -> Tensor:
        """Probabilities [rows, columns] that a row of hidden states is one of those tokens."""
        features = self.features(hidden)
        return (self.logits(features, columns) - self.log_normaliser(features)[:, None]).exp()


def from_model(lm: Any, source: str) -> LMHead:
    """The head of a model with an LM head, which is neither copied nor touched."""
    decoder = lm.get_output_embeddings()
    if decoder is None or not _decides_tokens(lm):
        raise LanguageHeadError(f"{source} ({type(lm).__name__}) has no LM head. {HINT}")
    try:
        return _taken_from(lm, decoder, source)
    except (AttributeError, TypeError, ValueError, RuntimeError, KeyError) as error:
        raise LanguageHeadError(
            f"The LM head of {type(lm).__name__} is not one nbsal knows how to use alone: {error}."
        ) from error


def _taken_from(lm: Any, decoder: Any, source: str) -> LMHead:
    norm = architecture.final_norm(lm)
    passage = _Passage(copy.deepcopy(norm, architecture.shared_tensors(lm)))
    # The memo puts a stand-in where deepcopy would enter the body, or the last linear map.
    stock = copy.deepcopy(lm, architecture.shared_tensors(lm) | {id(lm.base_model): passage}).eval()
    bare = copy.deepcopy(
        lm, architecture.shared_tensors(lm) | {id(lm.base_model): passage, id(decoder): nn.Identity()}
    ).eval()
    head = LMHead(_Logits(bare), decoder.weight, getattr(decoder, "bias", None), source)
    _check_linear(head, stock, architecture.width(lm))
    return head


def tied(model: Any) -> LMHead:
    """The model's own input embeddings as a decoder, h E^T: nothing to download, weaker at late layers."""
    weight = model.get_input_embeddings().weight
    if weight.shape[1] != architecture.width(model):
        raise LanguageHeadError(
            f'lm="tied" needs input embeddings as wide as the hidden states: {type(model).__name__} has '
            f"{weight.shape[1]} and {architecture.width(model)}. Pass the pretrained checkpoint with its LM head instead."
        )
    norm = architecture.final_norm(model)
    transform = nn.Identity() if norm is None else copy.deepcopy(norm, architecture.shared_tensors(norm))
    return LMHead(transform, weight, None, "tied")


def load(source: str) -> Any:
    """A checkpoint's model with its LM head, or the sentence that says why it has none."""
    import transformers

    config = architecture.read_config(source)
    named = (config.architectures or [""])[0]
    if named.endswith(("ForSequenceClassification", "ForQuestionAnswering", "ForTokenClassification")):
        raise LanguageHeadError(
            f"{source} is a {named} checkpoint: its LM head would be random. {HINT}",
        )
    masked = type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING
    if named.endswith(("ForCausalLM", "LMHeadModel")):
        masked = False
    kind = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM
    if not masked and type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        raise LanguageHeadError(f"{source} ({config.model_type}) has no LM head in transformers. {HINT}")
    model, report = architecture.read_weights(kind, source, torch.float32)
    missing = sorted(report["missing_keys"])
    if missing:
        raise LanguageHeadError(
            f"{source} lacks weights of an LM head ({', '.join(missing[:3])}{', ...' if missing[3:] else ''}): "
            f"they would be random. {HINT}"
        )
    return model


def check_fits(head: LMHead, width: int, model: Any) -> None:
    """Refuse a head whose vocabulary or width is not the model's."""
    if width != architecture.width(model):
        raise LanguageHeadError(
            f"The LM head of {head.source} reads {width} features, the model's hidden states have "
            f"{architecture.width(model)}: it belongs to another model. {HINT}"
        )
    if head.vocabulary != model.config.vocab_size:
        raise LanguageHeadError(
            f"The LM head of {head.source} knows {head.vocabulary} tokens, the model {model.config.vocab_size}: "
            f"it has another vocabulary. {HINT}"
        )


class _Logits(nn.Module):
    """The head of a model whose body is a passage, from hidden states to whatever it returns as logits."""

    def __init__(self, headed: nn.Module) -> None:
        super().__init__()
        self.headed = headed

    def forward(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.headed(inputs_embeds=hidden[None]).logits
        return logits[0]


def _decides_tokens(lm: Any) -> bool:
    return type(lm).__name__.endswith(("ForMaskedLM", "ForCausalLM", "LMHeadModel"))


@torch.no_grad()
def _check_linear(head: LMHead, stock: nn.Module, width: int) -> None:
    """Some heads scale or cap their logits after the linear map; those would be decoded wrongly."""
    weight = head.weight
    probe = torch.randn(2, width, generator=torch.Generator().manual_seed(0)).to(weight)
    ours = head.logits(head.features(probe), torch.arange(head.vocabulary, device=weight.device))
    if not torch.allclose(ours, _Logits(stock)(probe), rtol=1e-3, atol=1e-4):
        raise LanguageHeadError(f"The LM head of {type(stock).__name__} changes its logits after its last linear map.")
