"""Subject: a model under explanation, with its tokenizer, its labels, its blocks and perhaps an LM head."""

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
    """One model, never changed: explainers read it under its lock.

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
        self.labels = self._own_labels() if labels is None else _names(labels, model)
        self.default_layer = round(0.6 * self.depth) if default_layer is None else default_layer
        self.causal = architecture.is_causal(model)
        self.pooling = architecture.pooling(model, self.task, self.causal)
        self.mask = mask  # the HeadMask that Mask-LRP uses unless told otherwise
        self.lock = _lock(model)
        self._lm_head = lm_head
        self._counting = False  # positions are given, from 0
        self._double: tuple[Any, Subject] | None = None  # in float64, and the stamp of the weights it has

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
        """Where the model lies."""
        return self.model.device  # type: ignore[no-any-return]

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the model's weights."""
        return self.model.dtype  # type: ignore[no-any-return]

    @cached_property
    def text_encoder(self) -> TextEncoder:
        """Turns texts and token ids into what the model reads."""
        return TextEncoder(self.model, self.tokenizer, self.name, self.task)

    @property
    def max_length(self) -> int:
        """The number of tokens that the model reads at most."""
        return self.text_encoder.max_length

    @property
    def lm_head(self) -> LMHead:
        """The pretrained LM head, or the sentence that says how to get one."""
        head = self._lm_head
        if head is None:
            raise LanguageHeadError(f"{self.name} has no LM head to decode its layers with. {lm_head.HINT}")
        if (head.weight.device, head.weight.dtype) != (self.device, self.dtype):  # the model was moved meanwhile
            head = self._lm_head = head.to(self.device, self.dtype)
        return head

    @property
    def double(self) -> "Subject":
        """This subject in float64: a copy, made anew once weights have changed; the model itself is never converted."""
        if self.dtype == torch.float64:
            return self
        with self.lock:
            now = architecture.weights_version(self.model)
            if self._double is None or self._double[0] != now:
                self._double = now, self._copied()
            return self._double[1]

    @cached_property
    def as_published(self) -> "Subject":
        """This subject as the Mask-LRP authors' program runs it.

        RoBERTa's positions count from 0, not from after its padding id, and GPT-2 has the exact GELU. That is not what
        these models were trained on.
        """
        counting, exact = bool(architecture.first_position(self.model)), self.model.config.model_type == "gpt2"
        if not counting and not exact:
            return self
        published = copy.copy(self)
        published._counting = counting
        if exact:
            published.model = architecture.with_exact_gelu(self.model)
            published.blocks = architecture.blocks(published.model)
        return published

    @property
    def one_at_a_time(self) -> bool:
        """Whether a batch is no batch: a pooling decoder does not know its padding id, or padding is in full view."""
        unknown = self.pooling == "last" and self.model.config.pad_token_id is None
        return unknown or architecture.sees_padding(self.model)

    def encode(self, text: Text | list[Text], *, first: int = 0) -> Encoded:
        """What the model reads of a text, a pair, or a list of either; too long a text is cut, and says so.

        `first` is the number of a list's first text in sentences about it.
        """
        return self.text_encoder.encode(text, first)

    def encode_ids(self, input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None) -> Encoded:
        """The same for token ids made elsewhere: one sequence, or a batch of equal length.

        Padding at the end (the padding id, hidden by `attention_mask`) is left out.
        """
        return self.text_encoder.encode_ids(input_ids, attention_mask, token_type_ids)

    def inputs(self, encoded: Encoded) -> dict[str, Tensor]:
        """The padded tensors the model's forward takes."""
        named = {"input_ids": encoded.input_ids, "attention_mask": encoded.attention_mask}
        if (getattr(self.model.config, "type_vocab_size", 0) or 0) > 1:
            named["token_type_ids"] = encoded.token_type_ids
        if self._counting:
            named["position_ids"] = np.broadcast_to(np.arange(encoded.longest), encoded.input_ids.shape).copy()
        return {name: torch.as_tensor(rows, device=self.device) for name, rows in named.items()}

    def logits(self, inputs: dict[str, Tensor]) -> Tensor:
        """One forward: [batch, label]; spans [batch, position, 2]; otherwise [batch, position, label or token]."""
        architecture.check_device(self.model)  # the user may have moved or converted it meanwhile
        plain = {"return_dict": True, "output_hidden_states": False, "output_attentions": False}
        if self.causal:
            plain["use_cache"] = False
        output = self.model(**inputs, **plain)
        if self.task == "span":
            return torch.stack((output.start_logits, output.end_logits), -1)
        return output.logits  # type: ignore[no-any-return]

    def pooled(self, encoded: Encoded) -> list[int | None]:
        """The position each text's decision is read from; None where there are several."""
        if self.pooling == "first":
            return [0] * len(encoded)
        if self.pooling == "last":
            return [row.last for row in encoded]
        return [None] * len(encoded)

    def __repr__(self) -> str:
        decoder = self._lm_head.source if self._lm_head else None
        return (
            f"Subject({self.name!r}, task={self.task!r}, depth={self.depth}, heads={self.heads}, "
            f"labels={self.labels[:8]}, lm={decoder!r})"
        )

    def _copied(self) -> "Subject":
        """The same in float64; devices without it (MPS) leave the work to the CPU."""
        copied = copy.deepcopy(self.model)
        return Subject(
            (copied.cpu() if self.device.type == "mps" else copied).double(),
            self.tokenizer,
            name=self.name,
            labels=self.labels or None,  # causal models have none
            lm_head=self._lm_head,
            default_layer=self.default_layer,
            mask=self.mask,
        )

    def _own_labels(self) -> list[str]:
        if self.task == "span":
            return ["start", "end"]
        if self.task == "next-token":
            return []
        names = self.model.config.id2label
        return [names[i] for i in range(self.model.config.num_labels)]


def _check_config(model: Any) -> None:
    """Refuse a model without a vocabulary, or whose layers nobody counts."""
    lacking = [name for name in ("vocab_size", "hidden_size", "num_hidden_layers") if not hasattr(model.config, name)]
    if lacking:
        raise ModelError(
            f"The configuration of {type(model).__name__} has no {' and no '.join(lacking)}: nbsal explains models "
            "that read tokens of a vocabulary through a stack of blocks."
        )


def _names(labels: Sequence[str] | Mapping[int, str], model: Any) -> list[str]:
    """Names for the model's labels, by number or in order."""
    size = model.config.num_labels
    wrong = set(labels) != set(range(size)) if isinstance(labels, Mapping) else isinstance(labels, str | bytes)
    if wrong or not isinstance(labels, Iterable):
        raise InputError(f"labels is a list of names, or a dict from 0 to {size - 1} to names, not {labels!r:.60}.")
    found = [labels[i] for i in range(size)] if isinstance(labels, Mapping) else list(map(str, labels))
    if len(found) != size or len(set(found)) != size:
        raise InputError(f"labels has {len(set(found))} different names, the model decides among {size}.")
    return found


_LOCKS: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()


def _lock(model: Any) -> Any:
    """One re-entrant lock for each model, however many subjects it has."""
    return _LOCKS.setdefault(model, threading.RLock())
