"""Models of peft: those whose adapters change weights are read as the model they change."""

from typing import Any

from nbsal.model.loading.wrappers import plain
from nbsal.model.loading.wrappers.opened import Opened, Request
from nbsal.support.errors import ModelError


def open_peft(model: Any, request: Request) -> Opened:
    """The model inside a PeftModel, with its adapters in place."""
    active = model.active_adapter
    for name in [active] if isinstance(active, str) else active:
        check_adapter(model.peft_config[name], type(model).__name__)
    return plain.open_module(model.get_base_model(), request)


def check_adapter(config: Any, name: str) -> None:
    """Refuse an adapter that adds positions to the text instead of changing weights."""
    if config.is_prompt_learning:
        message = (
            f"{name} steers its model by learnt prompts, positions that no text stands at. nbsal explains adapters "
            "that change weights, such as LoRA."
        )
        raise ModelError(message, part="adapter")
