"""Check that an explanation leaves the model and the process unchanged, also after an error or an interrupt."""

import dataclasses
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from nbsal.explain.explainer import Explainer
from nbsal.model.subject import Subject
from nbsal.testing.repeats import global_seed
from nbsal.testing.scores import TEXTS, require

Explain = Callable[[str], Any]
UNUSUAL = 77_003_417  # a seed that a method which seeds the generators does not happen to use


class Broken(Exception):
    """Raised on purpose, by a model or a method."""


def snapshot(subject: Subject) -> dict[str, Any]:
    """Everything that an explanation might change."""
    model, tokenizer = subject.model, subject.tokenizer
    return {
        "config": str(model.config),
        "values": [_checksum(value) for value in (*model.parameters(), *model.buffers())],
        "dropout": [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)],
        "tokenizer": (getattr(tokenizer, "padding_side", None), getattr(tokenizer, "truncation_side", None)),
        "settings": (torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()),
        "attention": model.config._attn_implementation,
        "training": [module.training for module in model.modules()],
        "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
        "grad": [parameter.grad is None for parameter in model.parameters()],
        "weights": [(parameter.data_ptr(), parameter._version) for parameter in model.parameters()],
        "hooks": [
            (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks), len(m._backward_pre_hooks))
            for m in model.modules()
        ],
        "forward": [module.__dict__.get("forward") for module in model.modules()],
        "rng": (torch.get_rng_state().numpy().tobytes(), str(np.random.get_state()), random.getstate()),
        "registry": (sorted(ALL_ATTENTION_FUNCTIONS), sorted(ALL_MASK_ATTENTION_FUNCTIONS)),
        "grad mode": torch.is_grad_enabled(),
        "modes": torch._C._len_torch_function_stack(),
    }


def _checksum(values: torch.Tensor) -> int:
    """A number that depends on every bit of a tensor: edits of `.data` do not change its version."""
    if values.is_meta or values.is_quantized:
        return 0
    return hash(values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())


def changes(subject: Subject, run: Callable[[], Any]) -> str:
    """What a call changes in the model and the process, among what a method may not touch."""
    with global_seed(UNUSUAL):
        before = snapshot(subject)
        run()
        after = snapshot(subject)
    return ", ".join(name for name in before if before[name] != after[name])


def fails(explain: Explain, error: type[BaseException]) -> bool:
    """Whether explaining a text raises that error."""
    with suppress(error):
        explain(TEXTS[0])
        return False
    return True


def fail_in_model(error: type[BaseException], subject: Subject, explain: Explain) -> None:
    """The model raises an error of that class in the middle of its forward pass."""

    def raise_error(module: Any, args: Any, output: Any) -> None:
        raise error  # a new one each time: an error that is raised again keeps the frames of all its tracebacks

    handle = subject.blocks[-1].register_forward_hook(raise_error)
    try:
        require(fails(explain, error), f"an {error.__name__} inside the model is swallowed")
    finally:
        handle.remove()


def fail_in_method(error: type[BaseException], subject: Subject, explain: Any) -> None:
    """The method raises after the trace was recorded."""

    class Raising(type(explain.method)):  # type: ignore[misc]
        def scores(self, trace: Any) -> Any:
            super().scores(trace)
            raise error

    fields = {field.name: getattr(explain.method, field.name) for field in dataclasses.fields(explain.method)}
    broken = Explainer(explain.subject, explain.method)
    broken.method = Raising(**fields)
    require(fails(broken, error), f"an {error.__name__} inside the method is swallowed")


OUTCOMES: dict[str, Callable[[Subject, Explain], Any]] = {
    "success": lambda subject, explain: explain(TEXTS[0]),
    "error in the model": partial(fail_in_model, Broken),
    "interrupt in the model": partial(fail_in_model, KeyboardInterrupt),
    "error in the method": partial(fail_in_method, Broken),
    "interrupt in the method": partial(fail_in_method, KeyboardInterrupt),
}


def is_restored(subject: Subject, explain: Explain, outcome: str) -> None:
    """The model, in training mode too, and the process are after that outcome as they were before."""
    training = {module: module.training for module in subject.model.modules()}
    try:
        for mode in (False, True):
            subject.model.train(mode)
            changed = changes(subject, partial(OUTCOMES[outcome], subject, explain))
            require(not changed, f"changed after {outcome}, with training={mode}: {changed}")
    finally:
        for module, mode in training.items():  # modes may be mixed, as when part of a model is fine-tuned
            module.training = mode


def everything_is_restored(explain: Explainer) -> None:
    """The model and the process are as before, after every outcome."""
    for outcome in OUTCOMES:
        is_restored(explain.method_subject, explain, outcome)
