"""The pretrained LM head as a decoder of any hidden layer.

The vocabulary is processed in chunks with a running logsumexp, and only the requested columns are kept: the full matrix
of positions by vocabulary is never in memory.
"""

import copy
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbsal.model import sides
from nbsal.model.running import architecture, products
from nbsal.model.running.lm_listening import PLAIN, Ending, listen
from nbsal.model.running.version import model_version, tensors_version
from nbsal.support.errors import LanguageHeadError, NbsalError

CHUNK = 4096  # vocabulary entries per chunk
ROWS = 2048  # hidden states per chunk: a chunk of logits takes about 32 MB

HINT = (
    "Pass the pretrained checkpoint that this model was fine-tuned from, for example "
    'nbsal.load(model, lm="roberta-base") or lm="path/to/checkpoint", or pass lm="tied" to decode with the input '
    "embeddings of the model."
)


class _NormOnlyBody(nn.Module):
    """A replacement for a model's body that applies only the final norm to the hidden states passed in."""

    def __init__(self, norm: nn.Module | None) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, *args: Any, inputs_embeds: Tensor, **kwargs: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions as Output

        return Output(last_hidden_state=inputs_embeds if self.norm is None else self.norm(inputs_embeds))


@dataclass(frozen=True)
class LMHead:
    """An LM head, which turns hidden states [rows, width] into logits over the vocabulary.

    `transform` is everything before the last linear layer; `weight` and `bias` are that layer. They are the model's own
    weights, so they change when the model is trained.
    """

    transform: nn.Module
    weight: Tensor
    bias: Tensor | None
    source: str
    ending: Ending = PLAIN

    @property
    def vocab_size(self) -> int:
        """The number of tokens in the vocabulary."""
        return self.weight.shape[0]

    def to(self, device: torch.device, dtype: torch.dtype) -> "LMHead":
        """A copy of the head on another device or in another precision."""
        transform = copy.deepcopy(self.transform).to(device=device, dtype=dtype)
        bias = None if self.bias is None else self.bias.detach().to(device, dtype)
        return LMHead(transform, self.weight.detach().to(device, dtype), bias, self.source, self.ending)

    @property
    def weights_version(self) -> tuple[Any, ...]:
        """A key that changes when a weight does or the head is moved."""
        linear = [self.weight] if self.bias is None else [self.weight, self.bias]
        return model_version(self.transform), tensors_version(linear)

    @torch.no_grad()
    def features(self, hidden: Tensor) -> Tensor:
        """The input of the last linear layer, for hidden states [rows, width]."""
        features: Tensor = self.transform(hidden)
        return features

    @torch.no_grad()
    def logits(self, features: Tensor, columns: Tensor) -> Tensor:
        """Logits [rows, columns] of the given token ids only."""
        bias = None if self.bias is None else self.bias[columns]
        return self.ending(products.multiply(features, self.weight[columns], bias))

    @torch.no_grad()
    def log_normaliser(self, features: Tensor, coarse: bool = False) -> Tensor:
        """The log of the softmax denominator of each row; `coarse` multiplies in bfloat16."""
        dtype = torch.bfloat16 if coarse else features.dtype
        total = features.new_full((len(features),), -torch.inf)
        for first in range(0, self.vocab_size, CHUNK):
            chunk = slice(first, first + CHUNK)
            weight = self.weight[chunk].to(dtype)
            bias = None if self.bias is None else self.bias[chunk]
            for start in range(0, len(features), ROWS):
                rows = slice(start, start + ROWS)
                logits = products.multiply(features[rows].to(dtype), weight).to(features.dtype)
                part = self.ending(logits if bias is None else logits.add_(bias)).logsumexp(-1)
                total[rows] = torch.logaddexp(total[rows], part)
        return total

    def probabilities(self, hidden: Tensor, columns: Tensor) -> Tensor:
        """Probabilities [rows, columns] of the given token ids, for hidden states [rows, width]."""
        features = self.features(hidden)
        return (self.logits(features, columns) - self.log_normaliser(features)[:, None]).exp()


def from_model(lm: Any, source: str) -> LMHead:
    """The LM head of a model; the model itself is neither copied nor changed."""
    decoder = lm.get_output_embeddings()
    if decoder is None or not _predicts_tokens(lm):
        raise LanguageHeadError(f"{source} ({type(lm).__name__}) has no LM head. {HINT}", part="lm_head")
    errors = (AttributeError, TypeError, ValueError, RuntimeError, KeyError, IndexError, NbsalError)
    if not sides.writes_replies(lm):
        with suppress(*errors):
            return _separate(lm, decoder, source)
    try:
        return _observed(lm, decoder, source)
    except errors as error:
        raise LanguageHeadError(
            f"nbsal cannot run the LM head of {type(lm).__name__} separately from the model: {error}.", part="lm_head"
        ) from error


def _observed(lm: Any, decoder: Any, source: str) -> LMHead:
    """The head as one forward pass runs it."""
    modules, ending = listen(lm, decoder)
    transform = nn.Sequential(*(copy.deepcopy(module, architecture.shared_tensors(lm)) for module in modules)).eval()
    added = getattr(lm, "final_logits_bias", None)
    bias = getattr(decoder, "bias", None) if added is None else added[0]
    return LMHead(transform, decoder.weight, bias, source, ending)


def _separate(lm: Any, decoder: Any, source: str) -> LMHead:
    """The head without the body of its model; `decoder` is its last linear layer."""
    norm = architecture.final_norm(lm)
    body = _NormOnlyBody(copy.deepcopy(norm, architecture.shared_tensors(lm)))
    # The memo makes deepcopy use replacements for the body and for the last linear layer.
    memo = architecture.shared_tensors(lm) | {id(lm.base_model): body}
    full_head = copy.deepcopy(lm, dict(memo)).eval()
    transform = copy.deepcopy(lm, memo | {id(decoder): nn.Identity()}).eval()
    head = LMHead(_Logits(transform), decoder.weight, getattr(decoder, "bias", None), source)
    _check_linear(head, full_head, architecture.width(lm))
    return head


def tied(model: Any) -> LMHead:
    """The model's own input embeddings as a decoder, h E^T: no download, but weaker at late layers."""
    weight = model.get_input_embeddings().weight
    if weight.shape[1] != architecture.width(model):
        raise LanguageHeadError(
            f'lm="tied" needs input embeddings as wide as the hidden states. {type(model).__name__} has widths '
            f"{weight.shape[1]} and {architecture.width(model)}. Pass a pretrained checkpoint with an LM head instead.",
            part="input embeddings",
        )
    norm = architecture.final_norm(model)
    transform = nn.Identity() if norm is None else copy.deepcopy(norm, architecture.shared_tensors(norm))
    return LMHead(transform, weight, None, "tied")


def load(source: str) -> Any:
    """Load a checkpoint with its LM head; LanguageHeadError says why it has none."""
    import transformers

    config = architecture.read_config(source, "lm")
    name = (config.architectures or [""])[0]
    if name.endswith(("ForSequenceClassification", "ForQuestionAnswering", "ForTokenClassification")):
        raise LanguageHeadError(
            f"{source} is a {name} checkpoint, so its LM head would be random. {HINT}", part="lm_head"
        )
    masked = type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING
    if name.endswith(("ForCausalLM", "LMHeadModel")):
        masked = False
    model_class = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM
    if not masked and type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        message = f"{source}: transformers has no LM head for the architecture {config.model_type}. {HINT}"
        raise LanguageHeadError(message, part="lm_head")
    model, report = architecture.read_weights(model_class, source, torch.float32, "lm")
    missing = sorted(report["missing_keys"])
    if missing:
        names = ", ".join(missing[:3]) + (", ..." if missing[3:] else "")
        message = f"{source} lacks weights of the LM head ({names}), which would be random. {HINT}"
        raise LanguageHeadError(message, part=missing[0])
    return model


def check_fits(head: LMHead, width: int, model: Any) -> None:
    """Refuse a head whose width or vocabulary size differs from the model's."""
    if width != architecture.width(model):
        raise LanguageHeadError(
            f"The LM head of {head.source} reads {width} features, the model's hidden states have "
            f"{architecture.width(model)}: it belongs to another model. {HINT}",
            part="width",
        )
    if head.vocab_size != model.config.vocab_size:
        raise LanguageHeadError(
            f"The LM head of {head.source} has {head.vocab_size} tokens, the model {model.config.vocab_size}: "
            f"it belongs to another vocabulary. {HINT}",
            part="vocabulary",
        )


class _Logits(nn.Module):
    """The logits of a model whose body was replaced by _NormOnlyBody, as a function of hidden states."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model(inputs_embeds=hidden[None]).logits
        return logits[0]


def _predicts_tokens(lm: Any) -> bool:
    return sides.writes_replies(lm) or type(lm).__name__.endswith(("ForMaskedLM", "ForCausalLM", "LMHeadModel"))


@torch.no_grad()
def _check_linear(head: LMHead, full_head: nn.Module, width: int) -> None:
    """Refuse heads that scale or cap their logits after the last linear layer, which LMHead would miss."""
    weight = head.weight
    hidden = torch.randn(2, width, generator=torch.Generator().manual_seed(0)).to(weight)
    logits = head.logits(head.features(hidden), torch.arange(head.vocab_size, device=weight.device))
    if not torch.allclose(logits, _Logits(full_head)(hidden), rtol=1e-3, atol=1e-4):
        name = type(full_head).__name__
        message = f"The LM head of {name} changes its logits after the last linear layer. nbsal cannot decode with it."
        raise LanguageHeadError(message, part="lm_head")
