"""Subject: a model under explanation, with its tokenizer, its labels, its blocks and perhaps an LM head."""

import copy
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from nbsal import anatomy, language_head, reading
from nbsal.encoding import Encoded, Text
from nbsal.errors import InputError, LanguageHeadError, ModelError, UnknownName
from nbsal.language_head import LanguageHead


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
        language_head: LanguageHead | None = None,
        default_layer: int | None = None,
        mask: Any = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name or model.config.name_or_path or type(model).__name__
        self.task = anatomy.task(model)
        _check_config(model)
        self.blocks = anatomy.blocks(model)
        self.labels = self._own_labels() if labels is None else _names(labels, model)
        self.default_layer = round(0.6 * self.depth) if default_layer is None else default_layer
        self.causal = anatomy.causal(model)
        self.pooling = anatomy.pooling(model, self.task, self.causal)
        self.mask = mask  # the HeadMask that Mask-LRP uses unless told otherwise
        self.lock = _lock(model)
        self._language_head = language_head
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
        return anatomy.width(self.model)

    @property
    def device(self) -> torch.device:
        """Where the model lies."""
        return self.model.device  # type: ignore[no-any-return]

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the model's weights."""
        return self.model.dtype  # type: ignore[no-any-return]

    @cached_property
    def longest(self) -> int:
        """How many tokens the model reads at most."""
        return anatomy.longest(self.model, self.tokenizer)

    @property
    def language_head(self) -> LanguageHead:
        """The pretrained LM head, or the sentence that says how to get one."""
        head = self._language_head
        if head is None:
            raise LanguageHeadError(f"{self.name} has no LM head to decode its layers with. {language_head.HINT}")
        if (head.weight.device, head.weight.dtype) != (self.device, self.dtype):  # the model was moved meanwhile
            head = self._language_head = head.to(self.device, self.dtype)
        return head

    @property
    def double(self) -> "Subject":
        """This subject in float64: a copy, made anew once weights have changed; the model itself is never converted."""
        if self.dtype == torch.float64:
            return self
        with self.lock:
            now = anatomy.stamp(self.model)
            if self._double is None or self._double[0] != now:
                self._double = now, self._copied()
            return self._double[1]

    @cached_property
    def as_published(self) -> "Subject":
        """This subject as the Mask-LRP authors' program runs it.

        RoBERTa's positions count from 0, not from after its padding id, and GPT-2 has the exact GELU. That is not what
        these models were trained on.
        """
        counting, exact = bool(anatomy.first_position(self.model)), self.model.config.model_type == "gpt2"
        if not counting and not exact:
            return self
        published = copy.copy(self)
        published._counting = counting
        if exact:
            published.model = anatomy.with_exact_gelu(self.model)
            published.blocks = anatomy.blocks(published.model)
        return published

    @property
    def one_at_a_time(self) -> bool:
        """Whether a batch is no batch: a pooling decoder does not know its padding id, or padding is in full view."""
        unknown = self.pooling == "last" and self.model.config.pad_token_id is None
        return unknown or anatomy.sees_padding(self.model)

    def encode(self, text: Text | list[Text], *, first: int = 0) -> Encoded:
        """What the model reads of a text, a pair, or a list of either; too long a text is cut, and says so.

        `first` is the number of a list's first text in sentences about it.
        """
        return reading.encode(self, text, first)

    def encode_ids(self, input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None) -> Encoded:
        """The same for token ids made elsewhere: one sequence, or a batch of equal length.

        Padding at the end (the padding id, hidden by `attention_mask`) is left out.
        """
        return reading.encode_ids(self, input_ids, attention_mask, token_type_ids)

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
        anatomy.check_place(self.model)  # the user may have moved or converted it meanwhile
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
        decoder = self._language_head.source if self._language_head else None
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
            language_head=self._language_head,
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


def load(
    model: Any,
    *,
    tokenizer: Any = None,
    lm: Any = None,
    labels: Sequence[str] | Mapping[int, str] | None = None,
    device: Any = None,
    dtype: str = "float32",
) -> Subject:
    """A subject from an embedded name ("demo/reviews"), a hub id, a local folder, or a model in memory.

    `lm` is the pretrained checkpoint (id, folder or model) whose LM head decodes hidden layers; "tied" decodes with the
    model's own input embeddings. Models with an LM head of their own need none. `dtype` says how to load weights; a
    model in memory stays as it is.

    >>> import nbsal
    >>> nbsal.load("demo/news").labels
    ['World', 'Sports', 'Business', 'Sci/Tech']
    """
    import transformers

    name, layer, own, mask = None, None, None, None
    if isinstance(model, str) and model.startswith("demo/"):
        from nbsal import samples

        name, layer, own = model, samples.DEFAULT_LAYER, samples.base.tokenizer()
        model = samples.build(name).to(_dtype(dtype))
        lm, mask = samples.build_lm() if lm is None else lm, samples.mask(name)
    elif isinstance(model, str | Path):
        name = str(model)
        model = _from_checkpoint(name, _dtype(dtype))
        own = _own_tokenizer(name)
    elif not isinstance(model, transformers.PreTrainedModel):
        raise InputError(f"A model is a name, a folder or a transformers model, not {type(model).__name__}.")
    elif Path(model.config.name_or_path or "?").is_dir():
        own = _own_tokenizer(model.config.name_or_path)
    model = _placed(model, device, own=name is None)
    anatomy.check_place(model)
    anatomy.check_weights(model)
    tokenizer = _named_tokenizer(str(tokenizer)) if isinstance(tokenizer, str | Path) else tokenizer
    if tokenizer is not None and not isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
        kinds = "a folder, a hub id or a transformers tokenizer"
        raise InputError(f"tokenizer is {kinds}, not {type(tokenizer).__name__}.")
    reading.check_tokenizer(model, tokenizer, own)
    tokenizer = tokenizer or own
    head = _language_head(model, tokenizer, lm)
    return Subject(model, tokenizer, name=name, labels=labels, language_head=head, default_layer=layer, mask=mask)


def _dtype(name: str) -> torch.dtype:
    valid = ("float32", "float64", "bfloat16", "float16")
    if str(name).removeprefix("torch.") not in valid:
        raise UnknownName("dtype", name, valid)
    return getattr(torch, str(name).removeprefix("torch."))  # type: ignore[no-any-return]


def _from_checkpoint(source: str, dtype: torch.dtype) -> Any:
    import transformers

    config = anatomy.configuration(source)
    kind = getattr(transformers, (config.architectures or ["none"])[0], None)
    if kind is None:
        raise ModelError(f"{source} does not name an architecture that transformers knows: {config.architectures}.")
    model, report = anatomy.weights(kind, source, dtype)
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise ModelError(f"{source} lacks weights of its own head ({missing}): its decisions would be random.")
    return model


def _own_tokenizer(source: str) -> Any:
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception:  # whatever is wrong with it: a model without a tokenizer still explains token ids
        return None


def _named_tokenizer(source: str) -> Any:
    found = _own_tokenizer(source)
    if found is None:
        raise InputError(f"No tokenizer was found at {source!r}: give a folder, a hub id or a tokenizer.")
    return found


def _check_config(model: Any) -> None:
    """Refuse a model without a vocabulary, or whose layers nobody counts."""
    lacking = [name for name in ("vocab_size", "hidden_size", "num_hidden_layers") if not hasattr(model.config, name)]
    if lacking:
        raise ModelError(
            f"The configuration of {type(model).__name__} has no {' and no '.join(lacking)}: nbsal explains models "
            "that read tokens of a vocabulary through a stack of blocks."
        )


def _placed(model: Any, device: Any, own: bool) -> Any:
    """A model on the device asked for; one in memory is the user's `own`, and is never moved."""
    try:
        wanted = None if device is None else torch.device(device)
        if not own:
            return model.to(wanted or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InputError(f"device={device!r} cannot be used here: {str(error).splitlines()[0]}") from error
    if wanted is not None and (wanted.type, wanted.index or 0) != (model.device.type, model.device.index or 0):
        raise InputError(f"The model lies on {model.device}; a model in memory stays there: call model.to({device!r}).")
    return model


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


def _language_head(model: Any, tokenizer: Any, lm: Any) -> LanguageHead | None:
    if isinstance(lm, str) and lm == "tied":
        return language_head.tied(model)
    if lm is None:
        own = anatomy.task(model) == "next-token"
        return language_head.from_model(model, "its own LM head") if own else None
    from transformers import PreTrainedModel

    if not isinstance(lm, str | Path | PreTrainedModel):
        kinds = "a checkpoint's id or folder, a transformers model, or 'tied'"
        raise InputError(f"lm is {kinds}, not {type(lm).__name__}.")
    source = str(lm) if isinstance(lm, str | Path) else lm.config.name_or_path or type(lm).__name__
    pretrained = language_head.load(source) if isinstance(lm, str | Path) else lm
    head = language_head.from_model(pretrained, source)
    language_head.check_fits(head, anatomy.width(pretrained), model)
    theirs = _own_tokenizer(source) if isinstance(lm, str | Path) else None
    if theirs is not None and tokenizer is not None and theirs.get_vocab() != tokenizer.get_vocab():
        raise LanguageHeadError(f"{source} numbers its tokens otherwise than the model: it has another vocabulary.")
    return head
