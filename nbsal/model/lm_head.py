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
from torch.nn import functional

from nbsal.model import encoder_decoder
from nbsal.model.loading import checkpoint
from nbsal.model.running import architecture
from nbsal.model.running.hooks import hooks
from nbsal.model.running.twin import twin_of
from nbsal.model.running.version import Version, tensors_version
from nbsal.support.errors import LanguageHeadError, NbsalError
from nbsal.support.lazy import transformers

CHUNK = 4096  # vocabulary entries per chunk
ROWS = 2048  # hidden states per chunk: a chunk of logits takes about 32 MB
TOKENS = 6  # of the forward pass in which a head is observed
STEPS = 4  # modules between the last block and the last linear layer
CLOSE = 1e-5  # relative difference up to which logits count as equal

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
class Ending:
    """What a head does to its logits after the last linear layer: it scales them, or caps them softly."""

    scale: float = 1.0
    cap: float | None = None

    def __call__(self, logits: Tensor) -> Tensor:
        if self.scale != 1.0:
            logits = logits * self.scale
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


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
    ending: Ending = Ending()

    @property
    def vocab_size(self) -> int:
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
        return Version(self.transform).with_numbers(), tensors_version(linear)

    @torch.no_grad()
    def features(self, hidden: Tensor) -> Tensor:
        """The input of the last linear layer, for hidden states [rows, width]."""
        features: Tensor = self.transform(hidden)
        return features

    @torch.no_grad()
    def logits(self, features: Tensor, columns: Tensor) -> Tensor:
        """Logits [rows, columns] of the given token ids only."""
        bias = None if self.bias is None else self.bias[columns]
        return self.ending(functional.linear(features, self.weight[columns], bias))

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
                logits = functional.linear(features[rows].to(dtype), weight).to(features.dtype)
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
    predicts = encoder_decoder.writes_replies(lm) or type(lm).__name__.endswith(
        ("ForMaskedLM", "ForCausalLM", "LMHeadModel")
    )
    if decoder is None or not predicts:
        raise LanguageHeadError(f"{source} ({type(lm).__name__}) has no LM head. {HINT}", part="lm_head")
    errors = (AttributeError, TypeError, ValueError, RuntimeError, KeyError, IndexError, NbsalError)
    if not encoder_decoder.writes_replies(lm):
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
    twin = twin_of(lm)
    modules, ending = twin.run(lambda: _observe(twin.module))
    names = {module: name for name, module in twin.module.named_modules()}
    own = [lm.get_submodule(names[module]) if module in names else module for module in modules]
    transform = nn.Sequential(*(copy.deepcopy(module, architecture.shared_tensors(lm)) for module in own)).eval()
    added = getattr(lm, "final_logits_bias", None)
    bias = getattr(decoder, "bias", None) if added is None else added[0]
    return LMHead(transform, decoder.weight, bias, source, ending)


def _observe(lm: Any) -> tuple[list[nn.Module], Ending]:
    """The modules between the last block and the last linear layer, and what follows that.

    Modules are recognised by the tensors that pass between them, not by values: with fresh norms every norm fits.
    ValueError if the head is none of this.
    """
    (calls, logits), decoder = _module_calls(lm), lm.get_output_embeddings()
    last_block = architecture.blocks(
        lm, encoder_decoder.REPLY if encoder_decoder.writes_replies(lm) else encoder_decoder.SOURCE
    )[-1]
    top = [output for module, _, output in calls if module is last_block][-1]
    entered, left = [(x, y) for module, x, y in calls if module is decoder][-1]
    bias = getattr(lm, "final_logits_bias", None)  # of BART and its relatives, which add it themselves
    left = left if bias is None else left + bias
    transform: list[nn.Module] = []
    if hasattr(lm, "model_dim") and not any(_is_same(y, entered) for _, _, y in calls):  # T5 scales its states
        factor = lm.model_dim**-0.5
        outputs = (y for _, _, y in reversed(calls) if y.shape == entered.shape)
        unscaled = next((y for y in outputs if torch.equal(y * factor, entered)), None)
        if unscaled is None:
            raise ValueError("its last linear layer reads something else than what it says")
        transform, entered = [_Scale(factor)], unscaled
    while not _is_same(entered, top):
        before = [(module, x) for module, x, y in calls if _is_same(y, entered) and not _is_same(x, entered)]
        if not before or len(transform) == STEPS:
            raise ValueError("its last linear layer reads something else than the output of the last block")
        module, entered = before[0]
        transform.insert(0, module)
    return transform, _ending(left, logits, getattr(lm.config, "final_logit_softcapping", None))


def _module_calls(lm: Any) -> tuple[list[tuple[nn.Module, Tensor, Tensor]], Tensor]:
    """The input and output of all modules in a forward pass, in the order in which they ended, and the logits."""
    calls: list[tuple[nn.Module, Tensor, Tensor]] = []  # nothing of it is freed, so equal places mean equal tensors

    def after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        inputs = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        outputs = [value for value in (output if isinstance(output, tuple) else [output]) if isinstance(value, Tensor)]
        if inputs and outputs:
            calls.append((module, inputs[0], outputs[0]))

    ids = torch.arange(1, TOKENS + 1, device=lm.device)[None] % lm.config.vocab_size
    options = {} if type(lm).__name__.endswith("ForMaskedLM") else {"use_cache": False}
    options |= {"decoder_input_ids": ids} if encoder_decoder.writes_replies(lm) else {}
    with hooks(lm.modules(), after=after), torch.no_grad():
        logits = lm(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True, **options).logits
    return calls, logits


def _is_same(first: Tensor, second: Tensor) -> bool:
    """True for the same numbers at the same place in memory, views included."""
    return first.data_ptr() == second.data_ptr() and first.shape == second.shape


def _ending(left: Tensor, logits: Tensor, cap: float | None) -> Ending:
    """What makes the logits of what has left the last linear layer."""
    factor = float((logits * left).sum() / (left * left).sum())
    endings = [Ending(), Ending(scale=factor), *([] if cap is None else [Ending(cap=float(cap))])]
    for ending in endings:
        if float((ending(left) - logits).abs().max()) <= CLOSE * float(logits.abs().max()):
            return ending
    raise ValueError("it changes its logits after its last linear layer")


class _Scale(nn.Module):
    """Multiply by a number, as T5 does with what its head reads."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden * self.factor


def _separate(lm: Any, decoder: Any, source: str) -> LMHead:
    """The head without the body of its model; `decoder` is its last linear layer."""
    norm = architecture.final_norm(lm)
    shared = architecture.shared_tensors(lm)
    body = _NormOnlyBody(None if norm is None else copy.deepcopy(lm.get_submodule(norm), shared))
    # The memo makes deepcopy use replacements for the body and for the last linear layer.
    memo = architecture.shared_tensors(lm) | {id(lm.base_model): body}
    full_head = copy.deepcopy(lm, dict(memo)).eval()
    transform = copy.deepcopy(lm, memo | {id(decoder): nn.Identity()}).eval()
    head = LMHead(_Logits(transform), decoder.weight, getattr(decoder, "bias", None), source)
    _check_linear(head, full_head, lm.config.hidden_size)
    return head


def tied(model: Any) -> LMHead:
    """The model's own input embeddings as a decoder, h E^T: no download, but weaker at late layers."""
    weight = model.get_input_embeddings().weight
    if weight.shape[1] != model.config.hidden_size:
        raise LanguageHeadError(
            f'lm="tied" needs input embeddings as wide as the hidden states. {type(model).__name__} has widths '
            f"{weight.shape[1]} and {model.config.hidden_size}. Pass a pretrained checkpoint with an LM head instead.",
            part="input embeddings",
        )
    norm = architecture.final_norm(model)
    shared = architecture.shared_tensors(model)
    transform = nn.Identity() if norm is None else copy.deepcopy(model.get_submodule(norm), shared)
    return LMHead(transform, weight, None, "tied")


def load(source: str) -> Any:
    """Load a checkpoint with its LM head; LanguageHeadError says why it has none."""
    config = checkpoint.read_config(source, "lm")
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
    model, report = checkpoint.read_weights(model_class, source, torch.float32, "lm")
    missing = sorted(report["missing_keys"])
    if missing:
        names = ", ".join(missing[:3]) + (", ..." if missing[3:] else "")
        message = f"{source} lacks weights of the LM head ({names}), which would be random. {HINT}"
        raise LanguageHeadError(message, part=missing[0])
    return model


def check_fits(head: LMHead, width: int, model: Any) -> None:
    """Refuse a head whose width or vocabulary size differs from the model's."""
    if width != model.config.hidden_size:
        raise LanguageHeadError(
            f"The LM head of {head.source} reads {width} features, the model's hidden states have "
            f"{model.config.hidden_size}: it belongs to another model. {HINT}",
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
