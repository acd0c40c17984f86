"""What the scores of a model depend on, as settings and checksums that can be stored and compared."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from nbsal.model.lm_head import LMHead
from nbsal.model.loading.usage import PLAIN
from nbsal.model.subject import Subject
from nbsal.model.text.tokenize import special_ids

CHECKSUM = "blake2b:"  # begins every checksum, to tell them from settings
# Entries of a configuration that say where a model is from, what it returns or how it generates, not what it computes.
# The labels are compared as the subject has them, the precision by the weights.
_IRRELEVANT = frozenset({
    "_name_or_path", "name_or_path", "_commit_hash", "transformers_version", "architectures", "dtype", "torch_dtype",
    "id2label", "label2id", "num_labels", "_num_labels", "use_cache", "return_dict", "output_hidden_states",
    "output_attentions", "output_router_logits", "gradient_checkpointing", "finetuning_task", "task_specific_params",
    "do_sample", "temperature", "top_k", "top_p", "typical_p", "num_beams", "num_beam_groups", "num_return_sequences",
    "max_length", "min_length", "length_penalty", "repetition_penalty", "no_repeat_ngram_size", "early_stopping",
})  # fmt: skip
_MODULE_STATE = {*vars(nn.Module()), "_is_hf_initialized", "gradient_checkpointing", "max_seq_len_cached"}
_MOVED = {
    "nbsal.model.loading.": "nbsal.model.",
    "nbsal.model.lm_head._Scale": "nbsal.model.lm_listening.Scale",
    "nbsal.model.black_box._FunctionBody": "nbsal.model.black_box._Body",
}
_DYNAMIC_ROPE = ("dynamic", "longrope")  # their frequencies change with the length of the last text


def model_identity(subject: Subject) -> dict[str, Any]:
    """Everything that determines the outputs of a model, by name; the folder it was loaded from does not."""
    usage = {} if subject.usage == PLAIN else {"usage": json.loads(json.dumps(asdict(subject.usage)))}
    with subject.lock:
        model, state = subject.model, subject.model.state_dict()
        return {
            "config": _relevant_settings(model.config.to_dict()),
            "tokenizer": _tokenizer_identity(subject) | usage,
            "modules": _modules_checksum(model),
            "buffers": _tensors_checksum({n: b for n, b in _fixed_buffers(model).items() if n not in state}),
            "weights": _tensors_checksum(state),
        }


def lm_head_checksum(head: LMHead) -> str:
    """A checksum of an LM head: its weights and the layers before them."""
    tensors = head.transform.state_dict(prefix="transform.") | {"weight": head.weight}
    tensors |= {} if head.bias is None else {"bias": head.bias}
    return checksum([_modules_checksum(head.transform).encode(), _tensors_checksum(tensors).encode()])


def checksum(parts: Iterable[Any]) -> str:
    """A checksum of several values, each of which is bytes or a buffer."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(f"{memoryview(part).nbytes} ".encode())
        state.update(part)
    return CHECKSUM + state.hexdigest()


def _relevant_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a configuration that determine outputs, also in nested configurations, as JSON has them."""
    entries = {
        name: _relevant_settings(value) if isinstance(value, Mapping) else value
        for name, value in sorted(config.items(), key=lambda entry: str(entry[0]))
        if name not in _IRRELEVANT
    }
    plain: dict[str, Any] = json.loads(json.dumps(entries, default=str))
    return plain


def _tokenizer_identity(subject: Subject) -> dict[str, Any]:
    """The settings of a tokenizer, and a checksum of each part of it."""
    tokenizer = subject.tokenizer
    if tokenizer is None or not tokenizer.get_vocab():  # words of a served model
        return {}
    if hasattr(tokenizer, "backend_tokenizer"):
        parts = json.loads(tokenizer.backend_tokenizer.to_str())
        del parts["truncation"], parts["padding"]  # state that the last text left
    else:
        settings = {
            name: value for name, value in tokenizer.init_kwargs.items() if not name.endswith(("_file", "_path"))
        }
        parts = {"model": sorted(tokenizer.get_vocab().items()), "settings": settings}
    return {
        "length": len(tokenizer),
        "model_max_length": tokenizer.model_max_length,
        "truncation_side": tokenizer.truncation_side,
        "split_special_tokens": getattr(tokenizer, "split_special_tokens", False),
        "token_types": "token_type_ids" in tokenizer.model_input_names,
        "special_ids": sorted(special_ids(tokenizer)),
        "pad_id": subject.text_encoder.pad_id,
    } | {name: checksum([json.dumps(part, default=str).encode()]) for name, part in parts.items()}


def _modules_checksum(model: nn.Module) -> str:
    """A checksum of the classes and the settings of all modules: norms, activations, numbers of heads, adapters."""
    return checksum(
        f"{name} {_place(type(module))} {_module_settings(module)}".encode() for name, module in model.named_modules()
    )


def _module_settings(module: nn.Module) -> dict[str, str]:
    """The plain attributes of a module; those of a whole model repeat its configuration, and change with versions."""
    if isinstance(module, PreTrainedModel):
        return {}
    attributes = {name: _describe(value) for name, value in vars(module).items() if name not in _MODULE_STATE}
    return {name: text for name, text in sorted(attributes.items()) if text is not None}


def _describe(value: Any) -> str | None:
    """A value in words that are the same in every process; None for objects that have no such words."""
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return repr(value)
    if isinstance(value, FunctionType | BuiltinFunctionType):
        return _place(value)
    if isinstance(value, Mapping):
        return repr([(str(key), _describe(part)) for key, part in value.items()])
    if isinstance(value, set | frozenset):
        return repr(sorted(map(str, value)))
    return repr([_describe(part) for part in value]) if isinstance(value, list | tuple) else None


def _place(definition: Any) -> str:
    """Where a class or a function is defined; one that has moved keeps its earlier place, and so its checksum."""
    place = f"{definition.__module__}.{definition.__qualname__}"
    for now, before in _MOVED.items():
        place = place.replace(now, before)
    return place


def _fixed_buffers(model: nn.Module) -> dict[str, Tensor]:
    """The buffers that running the model does not change, such as position ids and rotary frequencies."""
    return {
        f"{prefix}.{name}" if prefix else name: buffer
        for prefix, module in model.named_modules()
        if not any(kind in str(getattr(module, "rope_type", "")) for kind in _DYNAMIC_ROPE)
        for name, buffer in module.named_buffers(recurse=False)
    }


def _tensors_checksum(tensors: Mapping[str, Any]) -> str:
    """A checksum of tensors with their names, precisions and shapes."""
    return checksum(part for name in sorted(tensors) for part in _tensor_parts(name, tensors[name]))


def _tensor_parts(name: str, tensor: Any) -> tuple[Any, ...]:
    if not isinstance(tensor, Tensor):  # extra state of a module
        return f"{name} {_describe(tensor)}".encode(), b""
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), data
