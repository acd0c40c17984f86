"""The model under explanation, with its tokenizer, labels, blocks and, where available, an LM head."""

import copy
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from nbsal.errors import InputError, LanguageHeadError, ModelError
from nbsal.model import architecture, lm_head
from nbsal.model.lm_head import LMHead
from nbsal.model.tokenize import TextEncoder
from nbsal.model.tokens import Encoded
from nbsal.validation import Text


class Subject:
    """A model to explain. Explainers never change it, and hold its lock while they run it.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> subject.depth, subject.heads, subject.labels
    (6, 12, ['negative', 'positive'])
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        name: str | None = None,
        labels: Sequence[str] | Mapping[int, str] | None = None,
        lm_head: LMHead | None = None,
        default_layer: int | None = None,
        mask: Any = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name or model.config.name_or_path or type(model).__name__
        self.task = architecture.task(model)
        _check_config(model)
        self.blocks = architecture.blocks(model)
        self.labels = self._config_labels() if labels is None else _check_labels(labels, model)
        self.default_layer = round(0.6 * self.depth) if default_layer is None else default_layer
        self.causal = architecture.is_causal(model)
        self.pooling = architecture.pooling(model, self.task, self.causal)
        self.mask = mask  # the default HeadMask of Mask-LRP
        self.lock = _model_lock(model)
        self._lm_head = lm_head
        self._positions_from_zero = False  # pass position ids that start at 0
        self._float64_copy: tuple[Any, Subject] | None = None  # the version of its weights, and the copy

    @property
    def depth(self) -> int:
        """The number of blocks; layer 0 is the embedding output, layer `depth` the last block's output."""
        return int(self.model.config.num_hidden_layers)

    @property
    def heads(self) -> int:
        """The number of attention heads of a block."""
        return int(self.model.config.num_attention_heads)

    @property
    def width(self) -> int:
        """The number of features of a hidden state."""
        return architecture.width(self.model)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.model.device  # type: ignore[no-any-return]

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the model's weights."""
        return self.model.dtype  # type: ignore[no-any-return]

    @cached_property
    def text_encoder(self) -> TextEncoder:
        """The encoder of texts and token ids."""
        return TextEncoder(self.model, self.tokenizer, self.name, self.task)

    @property
    def max_length(self) -> int:
        """The maximum number of tokens the model reads."""
        return self.text_encoder.max_length

    @property
    def lm_head(self) -> LMHead:
        """The pretrained LM head; LanguageHeadError says how to get one."""
        head = self._lm_head
        if head is None:
            message = f"{self.name} has no LM head to decode its layers with. {lm_head.HINT}"
            raise LanguageHeadError(message, part="lm_head")
        if (head.weight.device, head.weight.dtype) != (self.device, self.dtype):  # the model was moved
            head = self._lm_head = head.to(self.device, self.dtype)
        return head

    @property
    def double(self) -> "Subject":
        """A float64 copy of this subject, renewed when weights change; the model itself is never converted."""
        if self.dtype == torch.float64:
            return self
        with self.lock:
            version = architecture.weights_version(self.model)
            if self._float64_copy is None or self._float64_copy[0] != version:
                self._float64_copy = version, self._copy_to_float64()
            return self._float64_copy[1]

    @cached_property
    def as_published(self) -> "Subject":
        """This subject as the program of the Mask-LRP authors runs it.

        There RoBERTa's positions start at 0 instead of after the padding id, and GPT-2 uses the exact GELU. The models
        were not trained like that.
        """
        offset_positions = bool(architecture.first_position(self.model))
        approximate_gelu = self.model.config.model_type == "gpt2"
        if not offset_positions and not approximate_gelu:
            return self
        published = copy.copy(self)
        published._positions_from_zero = offset_positions
        if approximate_gelu:
            published.model = architecture.with_exact_gelu(self.model)
            published.blocks = architecture.blocks(published.model)
        return published

    @property
    def unbatchable(self) -> bool:
        """True if the model must run one text at a time, because padding would change its output.

        Either its head pools over the last token and it has no padding id, or it cannot mask padding.
        """
        no_padding_id = self.pooling == "last" and self.model.config.pad_token_id is None
        return no_padding_id or architecture.sees_padding(self.model)

    def encode(self, text: Text | list[Text], *, first: int = 0) -> Encoded:
        """Tokenize a text, a pair of texts, or a list of either. Texts that are too long are truncated.

        The rows report how many tokens were cut (`dropped`). `first` is the number of a list's first text in error
        messages.
        """
        return self.text_encoder.encode(text, first)

    def encode_ids(self, input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None) -> Encoded:
        """Encode existing token ids: one sequence, or a batch of sequences of equal length.

        Padding at the end (the padding id with an attention mask of 0) is removed.
        """
        return self.text_encoder.encode_ids(input_ids, attention_mask, token_type_ids)

    def inputs(self, encoded: Encoded) -> dict[str, Tensor]:
        """The padded tensors for the model's forward pass."""
        arrays = {"input_ids": encoded.input_ids, "attention_mask": encoded.attention_mask}
        if (getattr(self.model.config, "type_vocab_size", 0) or 0) > 1:
            arrays["token_type_ids"] = encoded.token_type_ids
        if self._positions_from_zero:
            arrays["position_ids"] = np.broadcast_to(np.arange(encoded.longest), encoded.input_ids.shape).copy()
        return {name: torch.as_tensor(array, device=self.device) for name, array in arrays.items()}

    def logits(self, inputs: dict[str, Tensor]) -> Tensor:
        """Run the model: [batch, label]; for spans [batch, position, 2]; else [batch, position, label or token]."""
        architecture.check_device(self.model)  # the user may have moved or converted it
        options = {"return_dict": True, "output_hidden_states": False, "output_attentions": False}
        if self.causal:
            options["use_cache"] = False
        output = self.model(**inputs, **options)
        if self.task == "span":
            return torch.stack((output.start_logits, output.end_logits), -1)
        return output.logits  # type: ignore[no-any-return]

    def pooled_positions(self, encoded: Encoded) -> list[int | None]:
        """The position each text's prediction is read from; None if there is more than one."""
        if self.pooling == "first":
            return [0] * len(encoded)
        if self.pooling == "last":
            return [row.last for row in encoded]
        return [None] * len(encoded)

    def __repr__(self) -> str:
        lm = self._lm_head.source if self._lm_head else None
        return (
            f"Subject({self.name!r}, task={self.task!r}, depth={self.depth}, heads={self.heads}, "
            f"labels={self.labels[:8]}, lm={lm!r})"
        )

    def _copy_to_float64(self) -> "Subject":
        """A copy in float64, on the CPU if the device has no float64 (MPS)."""
        model = copy.deepcopy(self.model)
        return Subject(
            (model.cpu() if self.device.type == "mps" else model).double(),
            self.tokenizer,
            name=self.name,
            labels=self.labels or None,  # causal models have none
            lm_head=self._lm_head,
            default_layer=self.default_layer,
            mask=self.mask,
        )

    def _config_labels(self) -> list[str]:
        if self.task == "span":
            return ["start", "end"]
        if self.task == "next-token":
            return []
        names = self.model.config.id2label
        return [names[i] for i in range(self.model.config.num_labels)]


def _check_config(model: Any) -> None:
    """Refuse a model whose configuration has no vocabulary size, width or number of layers."""
    missing = [name for name in ("vocab_size", "hidden_size", "num_hidden_layers") if not hasattr(model.config, name)]
    if missing:
        raise ModelError(
            f"The configuration of {type(model).__name__} has no {' and no '.join(missing)}. "
            "nbsal explains models that read tokens of a vocabulary and consist of a stack of blocks.",
            part=missing[0],
        )


def _check_labels(labels: Sequence[str] | Mapping[int, str], model: Any) -> list[str]:
    """The labels as a list, one different name for each class of the model."""
    size = model.config.num_labels
    invalid = set(labels) != set(range(size)) if isinstance(labels, Mapping) else isinstance(labels, str | bytes)
    if invalid or not isinstance(labels, Iterable):
        message = f"labels must be a list of names, or a dict with the keys 0 to {size - 1}, not {labels!r:.60}."
        raise InputError(message, argument="labels", value=labels)
    names = [labels[i] for i in range(size)] if isinstance(labels, Mapping) else list(map(str, labels))
    if len(names) != size or len(set(names)) != size:
        message = f"labels must have a different name for each of the {size} classes of the model, not {names!r:.80}."
        raise InputError(message, argument="labels", value=labels)
    return names


_LOCKS: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()


def _model_lock(model: Any) -> Any:
    """The re-entrant lock of a model, shared by all of its subjects."""
    return _LOCKS.setdefault(model, threading.RLock())
