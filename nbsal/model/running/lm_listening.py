"""The parts of an LM head, observed in one forward pass: what its last linear layer reads, and what follows it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbsal.model import sides
from nbsal.model.running import architecture, restore

TOKENS = 6
STEPS = 4  # modules between the last block and the last linear layer
CLOSE = 1e-5


@dataclass(frozen=True)
class Ending:
    """What a head does to its logits after the last linear layer: it scales them, or caps them softly."""

    scale: float = 1.0
    cap: float | None = None

    def __call__(self, logits: Tensor) -> Tensor:
        """The logits of the model."""
        if self.scale != 1.0:
            logits = logits * self.scale
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


PLAIN = Ending()  # the logits of the last linear layer as they are


@dataclass
class _Calls:
    """The inputs and outputs of all modules in a forward pass, in the order in which they ended; nothing is freed."""

    modules: list[tuple[nn.Module, Tensor, Tensor]]
    logits: Tensor


class Scale(nn.Module):
    """Multiply by a number, as T5 does with what its head reads."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden * self.factor


def listen(lm: Any, decoder: nn.Module) -> tuple[list[nn.Module], Ending]:
    """The modules between the last block and `decoder`, the last linear layer, and what follows it.

    Modules are recognised by the tensors that pass between them, not by values: with fresh norms every norm fits.
    ValueError if the head is none of this.
    """
    calls = restore.exclusively(lm, lambda: _record(lm))
    last_block = architecture.blocks(lm, sides.REPLY if sides.writes_replies(lm) else sides.SOURCE)[-1]
    top = [output for module, _, output in calls.modules if module is last_block][-1]
    entered, left = [(x, y) for module, x, y in calls.modules if module is decoder][-1]
    bias = getattr(lm, "final_logits_bias", None)  # of BART and its relatives, which add it themselves
    left = left if bias is None else left + bias
    transform: list[nn.Module] = []
    if hasattr(lm, "model_dim") and not any(_is_same(y, entered) for _, _, y in calls.modules):
        transform, entered = [Scale(lm.model_dim**-0.5)], _unscaled(calls, entered, lm.model_dim**-0.5)
    while not _is_same(entered, top):
        before = [(module, x) for module, x, y in calls.modules if _is_same(y, entered) and not _is_same(x, entered)]
        if not before or len(transform) == STEPS:
            raise ValueError("its last linear layer reads something else than the output of the last block")
        module, entered = before[0]
        transform.insert(0, module)
    return transform, _ending(left, calls.logits, getattr(lm.config, "final_logit_softcapping", None))


def _unscaled(calls: _Calls, entered: Tensor, factor: float) -> Tensor:
    """The tensor that was multiplied by a factor to make another one."""
    outputs = (y for _, _, y in reversed(calls.modules) if y.shape == entered.shape)
    unscaled = next((y for y in outputs if torch.equal(y * factor, entered)), None)
    if unscaled is None:
        raise ValueError("its last linear layer reads something else than what it says")
    return unscaled


def _record(lm: Any) -> _Calls:
    modules: list[tuple[nn.Module, Tensor, Tensor]] = []

    def after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        inputs = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        outputs = [value for value in (output if isinstance(output, tuple) else [output]) if isinstance(value, Tensor)]
        if inputs and outputs:
            modules.append((module, inputs[0], outputs[0]))

    size = lm.config.vocab_size
    ids = torch.arange(1, TOKENS + 1, device=lm.device)[None] % size
    options: dict[str, Any] = {"return_dict": True} | ({} if _is_masked(lm) else {"use_cache": False})
    options |= {"decoder_input_ids": ids} if sides.writes_replies(lm) else {}
    parts = list(lm.modules())
    with restore.Changes(lm) as changes, architecture.eval_mode(lm), torch.no_grad():
        changes.record_undo(restore.remove_hooks, parts, after)
        for module in parts:
            module.register_forward_hook(after, with_kwargs=True)
        logits = lm(input_ids=ids, attention_mask=torch.ones_like(ids), **options).logits
    return _Calls(modules, logits)


def _is_masked(lm: Any) -> bool:
    return type(lm).__name__.endswith("ForMaskedLM")


def _is_same(first: Tensor, second: Tensor) -> bool:
    """True for the same numbers at the same place in memory, views included."""
    return first.data_ptr() == second.data_ptr() and first.shape == second.shape


def _ending(left: Tensor, logits: Tensor, cap: float | None) -> Ending:
    factor = float((logits * left).sum() / (left * left).sum())
    endings = [PLAIN, Ending(scale=factor), *([] if cap is None else [Ending(cap=float(cap))])]
    for ending in endings:
        if float((ending(left) - logits).abs().max()) <= CLOSE * float(logits.abs().max()):
            return ending
    raise ValueError("it changes its logits after its last linear layer")
