"""Models of transformers, those that adapters of peft change, and modules of a user around one of them."""

from typing import Any

from torch import Tensor, nn

from nbsal.model.loading.composite import Composite, find_transformer, holds_transformer
from nbsal.model.loading.kinds import check_kind
from nbsal.model.loading.usage import LoadArguments, OpenedModel
from nbsal.model.running import architecture
from nbsal.support.errors import ModelError
from nbsal.support.lazy import transformers


def open_module(module: nn.Module, request: LoadArguments) -> OpenedModel:
    """A transformers model as it is where it has a head that nbsal knows; else a composite around it."""
    if isinstance(module, transformers.PreTrainedModel):
        check_kind(module, allows_encoder_decoder=True)
        named = request.read is None and request.transformer is None
        if named and module.config.is_encoder_decoder and type(module).__name__.endswith("ForSequenceClassification"):
            return OpenedModel(Composite(module, "", second_reader="decoder"))
        if named and type(module).__name__.endswith("ForMultipleChoice"):
            return OpenedModel(Composite(module, "", read_choices), labels=["score of the choice"])
        if named and (_has_known_head(module) or type(module).__module__.startswith("transformers.")):
            return OpenedModel(module)
    if request.tokenizer is not None and not holds_transformer(module):
        from nbsal.model.loading.wrappers.plain_module import PlainModule  # imports transformers

        return OpenedModel(Composite(PlainModule(module, request.read, request.tokenizer.pad_token_id or 0), ""))
    path = find_transformer(module, request.transformer)
    check_kind(module.get_submodule(path), allows_encoder_decoder=True)
    return OpenedModel(Composite(module, path, request.read))


def read_choices(model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """The score of each row, a question with one of its choices, [row, 1]."""
    logits: Tensor = model(**{name: tensor[:, None] for name, tensor in inputs.items()}).logits
    return logits


def open_peft(model: Any, request: LoadArguments) -> OpenedModel:
    """The model inside a PeftModel, with its adapters in place."""
    active = model.active_adapter
    for name in [active] if isinstance(active, str) else active:
        check_adapter(model.peft_config[name], type(model).__name__)
    return open_module(model.get_base_model(), request)


def check_adapter(config: Any, name: str) -> None:
    """Refuse an adapter that adds positions to the text instead of changing weights."""
    if config.is_prompt_learning:
        message = (
            f"{name} steers its model by learnt prompts, positions that no text stands at. nbsal explains adapters "
            "that change weights, such as LoRA."
        )
        raise ModelError(message, part="adapter")


def _has_known_head(module: nn.Module) -> bool:
    try:
        architecture.task(module)
    except ModelError:
        return False
    return True
