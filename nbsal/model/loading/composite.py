"""A module of any kind around one transformer, with what nbsal asks of a transformers model.

What is called is the module; blocks, configuration, attention and embeddings are those of the transformer inside it.
"""

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from nbsal.model.running.twin import twin_of
from nbsal.support.errors import InputError, ModelError
from nbsal.support.lazy import transformers

Read = Callable[[Any, dict[str, Tensor]], Tensor]
PROBE = (2, 9)  # texts and tokens of the forward pass that tells the task of a head from the shape of its output


def _of_transformer(name: str) -> Any:
    """An attribute that a composite shares with its transformer."""
    return property(lambda composite: getattr(composite.transformer, name))


class Composite(nn.Module):
    """A module that holds one transformer; `path` is where, and `read` turns inputs into logits in another way.

    Copying a composite copies the module, and the transformer of the copy is that of the copied module.
    """

    def __init__(self, module: nn.Module, path: str, read: Read | None = None, second_reader: str = "") -> None:
        super().__init__()
        self.module = module
        self.path = path
        self.reader = read
        self.second_reader = second_reader  # the part of an encoder-decoder that reads the text again
        twin = twin_of(self)
        self.task, self.outputs = twin.run(lambda: twin.module._measure())

    @property
    def transformer(self) -> Any:
        return self.module.get_submodule(self.path)

    @property
    def base_model(self) -> nn.Module:
        """The embeddings and blocks: of an encoder-decoder, those of its encoder."""
        model: nn.Module = self.transformer.get_encoder() if self.second_reader else self.transformer.base_model
        return model

    config, device, dtype, main_input_name, get_input_embeddings = map(
        _of_transformer, ("config", "device", "dtype", "main_input_name", "get_input_embeddings")
    )

    def forward(self, **inputs: Any) -> Any:
        """The logits, in an attribute of that name as transformers has it."""
        tensors = {name: value for name, value in inputs.items() if isinstance(value, Tensor)}
        if self.reader is not None:
            return SimpleNamespace(logits=self.reader(self.module, tensors))
        parameters = inspect.signature(self.module.forward).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            tensors = {name: value for name, value in tensors.items() if name in parameters}
        if "use_cache" in parameters:
            tensors["use_cache"] = False  # type: ignore[assignment]
        return SimpleNamespace(logits=_first_tensor(self.module(**tensors)))

    def _measure(self) -> tuple[str, int]:
        """The task, told by the shape of the logits, and the number of outputs."""
        texts, tokens = PROBE
        ids = (torch.arange(texts * tokens, device=self.device) % self.config.vocab_size).view(texts, tokens)
        if self.config.eos_token_id is not None:
            ids = ids.masked_fill(ids == self.config.eos_token_id, 1)
            ids[:, -1] = self.config.eos_token_id
        try:
            with torch.no_grad():
                shape = tuple(self.forward(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.shape)
        except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
            message = f"{type(self.module).__name__} cannot be called with input_ids and attention_mask: {error}"
            raise ModelError(f"{message:.300} Pass read=...", part="head") from error
        if shape[:1] == (texts,) and len(shape) == 2:
            return "sequence", shape[1]
        if shape[:2] == (texts, tokens) and len(shape) == 3:
            return ("next-token" if shape[2] == self.config.vocab_size else "token"), shape[2]
        message = (
            f"{type(self.module).__name__} returned {list(shape)} for {texts} texts of {tokens} tokens: neither one "
            "row a text nor one a token. Pass read=..., a function of the model and its inputs that returns logits."
        )
        raise ModelError(message, part="head")


def transformer_of(model: Any) -> Any:
    return model.transformer if isinstance(model, Composite) else model


def holds_transformer(module: nn.Module) -> bool:
    return any(isinstance(part, transformers.PreTrainedModel) for part in module.modules())


def find_transformer(module: nn.Module, chosen: str | None = None) -> str:
    """The path of the transformer inside a module; `chosen` says which, where there are several."""
    name = type(module).__name__
    paths = [path for path, part in module.named_modules() if isinstance(part, transformers.PreTrainedModel)]
    outer: list[str] = [path for path in paths if not any(path != other and _is_inside(path, other) for other in paths)]
    if chosen is not None:
        if not isinstance(chosen, str) or chosen not in paths:
            message = (
                f"transformer={chosen!r:.60} is no transformers model of {name}. Choose one of: {', '.join(paths)}."
            )
            raise InputError(message, argument="transformer", value=chosen)
        return chosen
    if not outer:
        message = (
            f"{name} holds no transformers model. Pass tokenizer=... if it reads token ids; or a function that "
            "tokenizes texts and runs it, and methods that hide words explain it: nbsal.load(lambda texts: "
            "probabilities(texts), labels=[...])."
        )
        raise InputError(message, argument="model", value=module)
    if len(outer) > 1:
        message = (
            f"{name} holds {len(outer)} transformers, {' and '.join(outer)}: say which one reads the text with "
            f"transformer={outer[0]!r}."
        )
        raise ModelError(message, part="transformer")
    return outer[0]


def _is_inside(path: str, other: str) -> bool:
    return other == "" or path.startswith(f"{other}.")


def _first_tensor(output: Any) -> Any:
    """The logits in what a module returns: a tensor, something with logits, or a tuple with a tensor."""
    if isinstance(output, Tensor):
        return output[:, None] if output.ndim == 1 else output
    if isinstance(getattr(output, "logits", None), Tensor):
        return output.logits
    if isinstance(output, dict) and isinstance(output.get("logits"), Tensor):
        return output["logits"]
    values = output.values() if isinstance(output, dict) else output if isinstance(output, list | tuple) else ()
    for value in values:
        if isinstance(value, Tensor):
            return value
    raise ModelError(
        f"A module returned {type(output).__name__}, which holds no logits. Pass read=..., a function of the model and "
        "its inputs that returns logits.",
        part="head",
    )
