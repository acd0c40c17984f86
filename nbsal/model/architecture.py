"""Anatomy: where a stock model keeps its blocks and its final norm, what its head decides, how much text it reads."""

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from nbsal.errors import ModelError

TASKS = {
    "ForSequenceClassification": "sequence",
    "ForQuestionAnswering": "span",
    "ForTokenClassification": "token",
    "ForCausalLM": "next-token",
    "LMHeadModel": "next-token",
}
_NOWHERE = (
    "lies on the meta device, where there are no numbers: load the model whole, with neither device_map nor offloading."
)


def read_config(source: str) -> Any:
    """The configuration of a checkpoint, or the sentence that says it is not to be had."""
    import transformers

    try:
        return transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(_unreadable(source, error)) from error


def read_weights(kind: Any, source: str, dtype: torch.dtype) -> tuple[Any, dict[str, Any]]:
    """A checkpoint's model and what transformers says of its weights; nothing is unpickled, no code of it is run."""
    plain = {"use_safetensors": True, "trust_remote_code": False, "output_loading_info": True}
    try:
        model, report = kind.from_pretrained(source, dtype=dtype, **plain)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        hint = " Weights must be safetensors: load and save them once with model.save_pretrained(folder)."
        raise ModelError(_unreadable(source, error) + hint) from error
    return model, report


def _unreadable(source: str, error: Exception) -> str:
    where = "The folder" if Path(source).is_dir() else "Neither a folder nor reachable on the hub:"
    return f"{where} {source!r} holds no checkpoint that can be read. {str(error).strip().splitlines()[0]}"


def task(model: nn.Module) -> str:
    """What the model's own head decides: "sequence", "span", "token" or "next-token"."""
    name = type(model).__name__
    for ending, kind in TASKS.items():
        if name.endswith(ending):
            return kind
    raise ModelError(
        f"{name} has no head whose decision could be explained. Pass a model for sequence classification, question "
        f"answering, token classification or causal language modelling; a masked LM belongs in lm=..."
    )


def body(model: Any) -> nn.Module:
    """The stack of blocks with its embeddings, without the task's head."""
    if model.config.is_encoder_decoder:
        raise ModelError(f"{type(model).__name__} is an encoder-decoder; nbsal explains encoders and decoders alone.")
    base: nn.Module = model.base_model
    return base


def blocks(model: Any) -> list[nn.Module]:
    """The modules whose calls are the model's blocks, in order; ALBERT calls the same one again and again."""
    base, depth = body(model), model.config.num_hidden_layers
    lists = [(name, module) for name, module in base.named_modules() if isinstance(module, nn.ModuleList)]
    for _, candidates in sorted(lists, key=lambda pair: pair[0].count(".")):
        if len(candidates) == depth:
            return list(candidates)
    shared = next((module for name, module in lists if name.endswith("layer_groups")), None)
    if shared is not None:
        return list(shared)
    raise ModelError(f"No stack of {depth} blocks was found in {type(model).__name__}.")


def first_tensor(output: Any) -> Tensor:
    """The hidden states among what a block returns."""
    return output if isinstance(output, Tensor) else output[0]


@contextmanager
def record_layers(model: Any) -> Iterator[list[Tensor]]:
    """A list that fills with the embedding output and every block's output while the model runs."""
    heard: list[Tensor] = []

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        if heard and hidden.data_ptr() != heard[-1].data_ptr():
            raise ModelError(f"The blocks of {type(model).__name__} do not follow one another: its layers are unknown.")
        if not heard:
            if torch.is_grad_enabled() and not hidden.requires_grad:
                hidden.requires_grad_(True)  # frozen weights: the graph begins here
            heard.append(hidden)

    def leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        heard.append(first_tensor(output))

    with _hooked(model, enter, leave):
        yield heard


@contextmanager
def replace_layer(model: Any, layer: int, states: Tensor) -> Iterator[None]:
    """The model running on with those states in place of a hidden layer's own."""
    calls = 0
    end = layer == model.config.num_hidden_layers

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal calls
        calls += 1
        if calls != layer + 1:
            return None
        return ((states, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": states})

    def leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if not end or calls != layer:
            return None
        return states if isinstance(output, Tensor) else (states, *output[1:])

    with _hooked(model, enter, leave):
        yield


@contextmanager
def _hooked(model: Any, enter: Any, leave: Any) -> Iterator[None]:
    """The model with a hook before and one behind each of its blocks; they are gone afterwards."""
    modules = list(dict.fromkeys(blocks(model)))
    handles = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in modules]
    handles += [module.register_forward_hook(leave) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode; every module's own flag comes back afterwards."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


@torch.no_grad()
def final_norm(model: Any) -> nn.Module | None:
    """The norm between the last block and the head (pre-norm models), found by what it does."""
    base = body(model)
    device = next(base.parameters()).device
    ids = torch.arange(4, device=device)[None] % model.config.vocab_size
    with eval_mode(model), record_layers(model) as heard:
        out = _read(base, ids)
    if torch.equal(heard[-1], out):
        return None
    for module in base.modules():
        weight = getattr(module, "weight", None)
        if weight is not None and weight.shape == out.shape[-1:] and torch.allclose(module(heard[-1]), out):
            norm: nn.Module = module
            return norm
    raise ModelError(f"What {type(model).__name__} does between its last block and its head is not one known norm.")


def width(model: Any) -> int:
    """The number of features of a hidden state."""
    return int(model.config.hidden_size)


def max_length(model: Any, tokenizer: Any) -> int:
    """How many tokens the model reads at most."""
    limit = int(getattr(model.config, "max_position_embeddings", 0) or 0)
    limit = limit if limit > 0 else 10**9  # some families know no limit
    for table in _offset_positions(model):
        limit = len(table.weight) - int(table.padding_idx) - 1
    return min(limit, tokenizer.model_max_length if tokenizer is not None else limit)


def first_position(model: Any) -> int:
    """The position of a text's first token."""
    return next((int(table.padding_idx) + 1 for table in _offset_positions(model)), 0)


def shared_tensors(model: nn.Module) -> dict[int, Any]:
    """What lets deepcopy copy a model's modules and not its weights, so that the copy learns with the model."""
    return {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}


def with_exact_gelu(model: Any) -> Any:
    """The model with exact GELU in the place of its approximation; the weights are the same ones, not copies."""
    from transformers.activations import NewGELUActivation

    found = copy.deepcopy(model, shared_tensors(model))
    for module in list(found.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, NewGELUActivation):
                setattr(module, name, nn.GELU())
    return found


def _offset_positions(model: Any) -> list[Any]:
    """The position table of RoBERTa and its kin, who start counting after the padding id."""
    named = body(model).named_modules()
    tables = [module for name, module in named if name.endswith("position_embeddings")]
    return [table for table in tables if getattr(table, "padding_idx", None) is not None]


def pooling(model: Any, kind: str, causal: bool) -> str | None:
    """Which positions a sequence head reads: "first", "last" (of the text) or "mean"; None for other heads."""
    if kind != "sequence":
        return None
    declared = getattr(model.config, "classifier_pooling", None)
    if declared:
        return "first" if declared == "cls" else "mean"
    return _summary(model) or ("last" if causal else "first")


def sees_padding(model: Any) -> bool:
    """Whether padding changes what a model says of a text: it knows no mask (FNet), or pools over all (XLNet)."""
    masked = "attention_mask" in inspect.signature(body(model).forward).parameters
    return not masked or _summary(model) in ("last", "mean")


def _summary(model: nn.Module) -> str | None:
    """What XLNet's summary takes."""
    summaries = [module for module in model.modules() if type(module).__name__.endswith("SequenceSummary")]
    return str(summaries[0].summary_type) if summaries else None


@torch.no_grad()
def is_causal(model: Any) -> bool:
    """Whether positions see only what stands before them.

    Attention modules say so themselves as a rule; of those that do not, a probe that changes a later token tells.
    """
    base, size = body(model), model.config.vocab_size
    said = {module.is_causal for module in base.modules() if isinstance(getattr(module, "is_causal", None), bool)}
    if said:
        return True in said
    ids = torch.tensor([[size - 1, size - 2, size - 3], [size - 1, size - 2, size - 4]], device=model.device)
    with eval_mode(model):
        first, other = _read(base, ids)
    return bool(torch.allclose(first[0], other[0], rtol=1e-4, atol=1e-6))


def _read(base: nn.Module, ids: Tensor) -> Tensor:
    """What a body makes of a probe; without a mask some warn that it may hold padding, which it may."""
    found: Tensor = base(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True).last_hidden_state
    return found


def weights_version(model: nn.Module) -> tuple[Any, ...]:
    """What differs once a weight does: where each lies, and how often it has been written."""
    return tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in model.parameters())


def check_weights(model: nn.Module) -> None:
    """Refuse a model that holds NaN or infinite weights."""
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise ModelError(f"The model's weight {name} {_NOWHERE}")
        if not torch.isfinite(parameter).all():
            raise ModelError(f"The model's weight {name} holds NaN or infinite values: it cannot be explained.")


def check_device(model: Any) -> None:
    """Refuse a model without numbers, and half precision on the CPU: its gradients are too coarse to rank tokens by."""
    if model.device.type == "meta":
        raise ModelError(f"{type(model).__name__} {_NOWHERE}")
    if model.device.type == "cpu" and model.dtype in (torch.float16, torch.bfloat16):
        raise ModelError(
            f"The model is in {str(model.dtype).removeprefix('torch.')} on the CPU, too coarse for gradients there: "
            f'load it with dtype="float32", or convert it with model.float().'
        )
