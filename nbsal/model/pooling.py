"""Which positions a sequence head reads, measured by the gradient of its logits at the states that it receives."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbsal.model.running import architecture
from nbsal.model.running.hooks import first_tensor, hooks
from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.errors import NbsalError

LENGTHS = (7, 7, 4)  # tokens of the texts of the probe; the third is padded
NEGLIGIBLE = 1e-4  # a position whose gradient is smaller than this share of the largest is not read


@dataclass(frozen=True)
class Pooling:
    """How a sequence head reads a text.

    `kind` is "first", "last" (of the text) or "mean"; "max" takes each feature from one position, "weighted" gives each
    position a fixed weight, and "mixed" is anything else.
    """

    kind: str
    reads_padding: bool = False
    last_layer_only: bool = True  # whether the logits depend on nothing but the states of the last layer


def probe(subject: Any, default: str) -> Pooling:
    """Measure how the head of a subject reads a text; `default` is the kind of a head that cannot be measured."""
    try:
        with torch.inference_mode(False):
            pooling: Pooling = subject.exclusively(lambda: _measure(subject, default))
            return pooling
    except (NbsalError, RuntimeError, TypeError, ValueError, AttributeError, LookupError):
        return Pooling(default)


def position_weights(subject: Any, encoded: Encoded) -> Tensor:
    """How much the head reads each position of each text, [text, position]; the weights of a text sum to 1."""

    def measure() -> Tensor:
        inputs, head = subject.inputs(encoded), HeadInput(subject.twin)
        sizes: Tensor = head.logits_and_gradient(inputs, head.states(inputs))[1].norm(dim=-1)
        return sizes

    with torch.inference_mode(False):
        sizes: Tensor = subject.exclusively(measure)
    inside = torch.as_tensor(encoded.attention_mask, device=sizes.device).bool()
    sizes = sizes.masked_fill(~inside, 0.0)
    weights: Tensor = sizes / sizes.sum(-1, keepdim=True).clamp_min(torch.finfo(sizes.dtype).tiny)
    return weights


class HeadInput:
    """The states that the head of a model receives: the output of the final norm, or of the last block."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.module = architecture.blocks(model)[-1]
        self.calls = 0  # of the module in a forward pass; ALBERT calls the same block repeatedly

    def states(self, inputs: dict[str, Tensor]) -> Tensor:
        """The states of some texts, [text, position, width]."""
        if not self.calls:
            self.module = self._final_norm(inputs) or self.module
        with torch.no_grad(), self._hook() as outputs:
            self.model(**inputs, return_dict=True)
        self.calls = len(outputs)
        return outputs[-1]

    def logits(self, inputs: dict[str, Tensor], states: Tensor) -> Tensor:
        """The logits of the head for other states than those of the texts."""
        with self._hook(states):
            logits: Tensor = self.model(**inputs, return_dict=True).logits
        return logits

    def logits_and_gradient(self, inputs: dict[str, Tensor], states: Tensor) -> tuple[Tensor, Tensor]:
        """The logits, and the gradient of a random mixture of them at the states, [text, position, width]."""
        with torch.enable_grad():
            leaf = states.detach().clone().requires_grad_()
            logits = self.logits(inputs, leaf)
            # A plain sum would vanish where the logits are normalised.
            mixture = torch.randn(logits.shape[-1], generator=torch.Generator().manual_seed(0)).to(logits)
            return logits.detach(), torch.autograd.grad((logits * mixture).sum(), leaf)[0]

    def _final_norm(self, inputs: dict[str, Tensor]) -> nn.Module | None:
        """The norm that reads the output of the last block, if any; its slope differs by position and hides a mean."""
        last: list[Tensor] = []
        readers: list[nn.Module] = []

        def after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            if module is self.module:
                last[:], readers[:] = [first_tensor(output)], []
            elif last and args and args[0] is last[0] and _is_norm(module, last[0].shape[-1:]):
                readers.append(module)

        with hooks(architecture.body(self.model).modules(), after=after), torch.no_grad():
            self.model(**inputs, return_dict=True)
        return readers[0] if len(readers) == 1 else None

    @contextmanager
    def _hook(self, states: Tensor | None = None) -> Iterator[list[Tensor]]:
        """Record the outputs of the module; `states` replace the last one."""
        outputs: list[Tensor] = []

        def after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
            outputs.append(first_tensor(output))
            if states is None or len(outputs) != self.calls:
                return None
            return states if isinstance(output, Tensor) else (states, *output[1:])

        with hooks([self.module], after=after):
            yield outputs


def _measure(subject: Any, default: str) -> Pooling:
    texts, head = _probe_texts(subject), HeadInput(subject.twin)
    padded = subject.model.config.pad_token_id is not None  # without a padding id, the head may not read two texts
    batches = [texts] if padded else [texts[:1], texts[1:2]]
    inputs = [subject.inputs(batch) for batch in batches]
    states = [head.states(batch_inputs) for batch_inputs in inputs]
    kinds, outputs, reads_padding = [], [], False
    for batch, batch_inputs, batch_states in zip(batches, inputs, states, strict=True):
        logits, gradients = head.logits_and_gradient(batch_inputs, batch_states)
        outputs += [*logits]
        for gradient, row in zip(gradients, batch, strict=True):
            if not bool(gradient.any()) or not bool(torch.isfinite(gradient).all()):
                return Pooling(default)
            size = gradient.norm(dim=-1)
            read = size > NEGLIGIBLE * size.max()
            reads_padding |= bool(read[len(row) :].any())
            if read[: len(row)].any():
                kinds.append(_kind(gradient[: len(row)], read[: len(row)]))
    # The states of the first text, run with the ids of the second one, must give the logits of the first.
    other = {name: values[[1, 0, 2]] for name, values in inputs[0].items()} if padded else inputs[1]
    with torch.no_grad():
        change = (head.logits(other, states[0])[0] - outputs[0]).abs().max()
    last_layer_only = bool(change <= 1e-2 * (outputs[1] - outputs[0]).abs().max())
    return Pooling(kinds[0] if len(set(kinds)) == 1 else "mixed", reads_padding, last_layer_only)


def _probe_texts(subject: Any) -> Encoded:
    """Random texts that begin and end as the tokenizer's texts do, where there is one."""
    config = subject.model.config
    names = ("pad", "cls", "sep", "bos", "eos", "mask", "unk")
    special = {getattr(source, f"{name}_token_id", None) for name in names for source in (config, subject.tokenizer)}
    content = [i for i in range(min(config.vocab_size, 1000)) if i not in special]
    ends = [config.bos_token_id, config.eos_token_id]
    if subject.tokenizer is not None:
        sample = subject.tokenizer("a")["input_ids"]
        ends = [sample[0], sample[-1]]
    first, last = (i if i in special and i != config.pad_token_id else None for i in ends)
    order = torch.randperm(len(content), generator=torch.Generator().manual_seed(0)).tolist()
    rows = []
    for size in LENGTHS:
        ids = [content[order.pop()] for _ in range(size)]
        ids[0], ids[-1] = (ids[0] if first is None else first), (ids[-1] if last is None else last)
        zeros, ones = (0,) * size, (1,) * size
        rows.append(Row("", tuple(ids), ("",) * size, ((0, 0),) * size, zeros, (False,) * size, zeros, ones))
    return Encoded(rows, subject.text_encoder.pad_id)


def _kind(gradient: Tensor, read: Tensor) -> str:
    """The kind of pooling that has this gradient, [position, width], at the positions that are read."""
    places = read.nonzero()[:, 0].tolist()
    if places == [0]:
        return "first"
    if places == [len(read) - 1]:
        return "last"
    size = gradient.norm(dim=-1)
    tolerance = 1e-3 if gradient.dtype in (torch.float32, torch.float64) else 3e-2
    if bool(read.all()) and bool(((gradient - gradient.mean(0)).norm(dim=-1) < tolerance * size).all()):
        return "mean"
    if bool((gradient.ne(0).sum(0) <= 1).all()):
        return "max"
    along = gradient @ gradient[int(size.argmax())] / size.max()
    return "weighted" if bool(((along.abs() - size).abs() < tolerance * size.max()).all()) else "mixed"


def _is_norm(module: nn.Module, width: torch.Size) -> bool:
    return isinstance(weight := getattr(module, "weight", None), Tensor) and weight.shape == width
