"""Layers of peft that add an adapter to a weight; recognised without importing peft."""

from collections.abc import Iterator
from typing import Any

from torch import nn


def adapter_layers(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, module in model.named_modules():
        if any(
            base.__name__ == "BaseTunerLayer" and base.__module__.startswith("peft.") for base in type(module).mro()
        ):
            yield name, module


def is_settled(model: nn.Module) -> bool:
    """False if an adapter is a branch of its own, or merged and disabled, which peft undoes before it runs."""
    return all(layer.disable_adapters != layer.merged for _, layer in adapter_layers(model))


def merge_adapters(model: nn.Module) -> None:
    """Replace every layer with an adapter by the plain layer that computes the same."""
    for name, layer in list(adapter_layers(model)):
        if layer.disable_adapters and layer.merged:
            layer.unmerge()
        elif not layer.disable_adapters and not layer.merged:
            layer.merge()
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, layer.get_base_layer())
