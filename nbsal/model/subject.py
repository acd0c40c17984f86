"""The model under explanation, with its tokenizer, labels, blocks and, where available, an LM head."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from nbsal.model import encoder_decoder, lm_head
from nbsal.model.lm_head import LMHead
from nbsal.model.loading import adapters, copies
from nbsal.model.loading.composite import transformer_of
from nbsal.model.loading.kinds import check_config, check_kind, check_labels
from nbsal.model.loading.stand_in import Encoder, StandIn
from nbsal.model.loading.usage import PLAIN, PREDICTS_TOKENS, Preprocessing
from nbsal.model.pooling import Pooling, probe
from nbsal.model.running import architecture
from nbsal.model.running.double import double_model, single_model
from nbsal.model.running.modes import ChangedGradients
from nbsal.model.running.twin import DIRECT, Convert, Twin, precision_errors, twin_of
from nbsal.model.served.served_model import Served
from nbsal.model.text.tokenize import TextEncoder
from nbsal.model.text.tokens import Encoded
from nbsal.support.errors import InputError, LanguageHeadError
from nbsal.support.validation import Text, checked

Result = TypeVar("Result")


@checked
class Subject:
    """A model to explain. Explainers neither change nor run it: they run its twin, and hold its lock meanwhile.

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
        usage: Preprocessing = PLAIN,
    ) -> None:
        check_kind(model)
        self._twin = twin_of(model)
        self.usage = usage
        self.tokenizer = tokenizer
        self.name = name or model.config.name_or_path or type(transformer_of(model)).__name__
        self.task = architecture.task(model)
        check_config(model)
        architecture.blocks(model)  # which it must have
        self.labels = check_labels(labels, model, self.task, self._outputs)
        self.default_layer = round(0.6 * self.depth) if default_layer is None else default_layer
        self.causal = self.task != encoder_decoder.REPLY and architecture.is_causal(model)
        self.mask = mask  # the default HeadMask of Mask-LRP
        self._lm_head = lm_head
        self._positions_from_zero = False  # pass position ids that start at 0
        self.dequantised = False  # a copy with the weights that those of few bits stand for
        self._computes_in: torch.dtype | None = None  # though most of its weights are those of the original
        self.gradients: ChangedGradients | None = None  # of its passes, in place of the model's own
        self.multiplies_in_float32 = False  # where relevance distributes itself over positive contributions
        self._copies: dict[Any, Subject] = {}  # with another model, or with other gradients, by what makes them
        self._built_head: tuple[Any, LMHead | None] | None = None  # the model's own LM head, and the model
        self._moved_head: tuple[Any, LMHead] | None = None  # the LM head in this precision, and what it was made of
        self._source: tuple[Any, Callable[[], Subject]] | None = None  # what was loaded, and how to load it again

    @property
    def lock(self) -> Any:
        """The re-entrant lock of the model, shared by all of its subjects."""
        return self._twin.lock

    @property
    def model(self) -> Any:
        """The model that was passed; a subject that is made of another one has its own."""
        return self._twin.model

    @property
    def twin(self) -> Any:
        """What explanations run in place of the model: the same weights, and modules and flags of its own."""
        return self._twin.module

    @property
    def blocks(self) -> list[Any]:
        """The blocks of the model, in the order in which they are called."""
        return architecture.blocks(self.model)

    def twin_blocks(self, side: str = encoder_decoder.SOURCE) -> list[Any]:
        """The blocks of the twin; of an encoder-decoder, those of one side."""
        return self._twin.once(architecture.blocks, side)

    @property
    def notes(self) -> dict[str, str]:
        """Entries for the provenance that say how the model is run, where that matters."""
        notes = {"model run": DIRECT} if self._twin.direct else {}
        if self.device.type == "cpu" and self.dtype in (torch.float16, torch.bfloat16):
            notes["precision"] = "half precision: scores that differ little may be in another order than in float32"
        return notes

    def exclusively(self, run: Callable[[], Result]) -> Result:
        """Call a function that runs the twin, which no other thread does meanwhile."""
        return self._twin.run(run)

    @property
    def transformer(self) -> Any:
        """The transformers model: the model itself, or what another library's model has inside."""
        return transformer_of(self.model)

    @property
    def activation(self) -> str:
        """What turns the logits of a sequence head into probabilities: "softmax", "sigmoid" or "none"."""
        if self.usage.activation is not None:
            return self.usage.activation
        kind = self.model.config.problem_type
        if kind == "regression" or len(self.labels) == 1:
            return "none"
        return "sigmoid" if kind == "multi_label_classification" else "softmax"

    @property
    def depth(self) -> int:
        """The number of blocks, of an encoder if there is one; layer 0 is the embedding output, `depth` the last's."""
        return int(self.model.config.num_hidden_layers)

    @property
    def heads(self) -> int:
        """The number of attention heads of a block; 0 without attention (Mamba)."""
        return int(getattr(self.model.config, "num_attention_heads", 0))

    @property
    def width(self) -> int:
        """The number of features of a hidden state."""
        return int(self.model.config.hidden_size)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.model.device  # type: ignore[no-any-return]

    @property
    def dtype(self) -> torch.dtype:
        """The precision that the model computes in: that of its weights, except in a copy."""
        return self._computes_in or self.model.dtype

    @cached_property
    def text_encoder(self) -> Encoder:
        """The encoder of texts and token ids."""
        if isinstance(self.model, StandIn):
            return self.model
        return TextEncoder(self.model, self.tokenizer, self.name, self.task, self.usage)

    @property
    def max_length(self) -> int:
        """The maximum number of tokens the model reads."""
        return self.text_encoder.max_length

    @property
    def lm_head(self) -> LMHead:
        """The pretrained LM head; LanguageHeadError says how to get one."""
        head = self._lm_head or self._own_lm_head
        if head is None:
            served = self.model.refusal("An LM head") if isinstance(self.model, Served) else None
            message = served or f"{self.name} has no LM head to decode its layers with. {lm_head.HINT}"
            raise LanguageHeadError(str(message), part="lm_head")
        place = self.device, self.dtype
        if (head.weight.device, head.weight.dtype) == place:
            return head
        key = head.weights_version, place
        if self._moved_head is None or self._moved_head[0] != key:
            self._moved_head = key, head.to(*place)
        return self._moved_head[1]

    @property
    def _own_lm_head(self) -> LMHead | None:
        """The LM head of the model itself, built at first use."""
        if self.task not in PREDICTS_TOKENS or isinstance(self.model, StandIn):
            return None
        model = self.transformer
        if self._built_head is None or self._built_head[0] is not model:
            self._built_head = model, lm_head.from_model(model, OWN_HEAD)
        return self._built_head[1]

    @cached_property
    def decodes(self) -> bool:
        """True if there is an LM head to decode layers with."""
        try:
            return self.lm_head is not None
        except LanguageHeadError:
            return False

    @property
    def version(self) -> tuple[Any, ...]:
        """What an explanation depends on; it differs after a change to the model or to its LM head."""
        return self.model_version, self._lm_head and self._lm_head.weights_version

    @property
    def model_version(self) -> Any:
        """What the outputs of the model depend on."""
        return self._twin.version

    @property
    def double(self) -> "Subject":
        """A float64 copy of this subject, renewed when the model changes; the model itself is never converted."""
        return self if self.dtype == torch.float64 else self._converted(double_model, _computes_in=torch.float64)

    @property
    def single(self) -> "Subject":
        """A float32 copy of a subject in half precision."""
        return self._converted(single_model, _computes_in=torch.float32)

    @property
    def mixed(self) -> "Subject":
        """Of float32 weights, a float64 copy whose relevance multiplies in float32 where no summands cancel."""
        if self.dtype != torch.float32:
            return self.double
        return self._cached("mixed", lambda _: self.double._with(self.double._twin, multiplies_in_float32=True))

    @property
    def merged(self) -> "Subject":
        """This subject with plain weights in a copy, adapters merged and 8 bits dequantised; itself if they are plain.

        Relevance needs it: unmerged, its rules would divide relevance between a weight and its adapter.
        """
        if copies.can_dequantise(self.model):
            return self._converted(copies.dequantised, dequantised=True)
        return self if adapters.is_settled(self.model) else self._converted(copies.merged)

    @property
    def as_published(self) -> "Subject":
        """This subject as the program of the Mask-LRP authors runs it, unlike it was trained.

        There RoBERTa's positions start at 0 instead of after the padding id, and GPT-2 uses the exact GELU.
        """
        offset_positions = bool(architecture.first_position(self.model))
        if not offset_positions and self.model.config.model_type != "gpt2":
            return self
        return self._converted(architecture.with_exact_gelu, _positions_from_zero=offset_positions)

    def _converted(self, convert: Convert, **settings: Any) -> "Subject":
        """This subject with what a function makes of its twin, renewed when the model changes."""
        return self._cached(convert, lambda subject: subject._with(Twin(subject._twin, convert), **settings))

    def _cached(self, key: Any, make: Callable[["Subject"], "Subject"]) -> "Subject":
        """What a function makes of this subject, made at first use."""
        if key not in self._copies:
            self._copies[key] = make(self)
        return self._copies[key]

    def with_model(self, model: Any) -> "Subject":
        """The same subject with a copy of its model."""
        return self._with(twin_of(model))

    def _with(self, twin: Twin, **settings: Any) -> "Subject":
        result = copy.copy(self)
        vars(result).update(settings, _twin=twin)
        vars(result).pop("text_encoder", None)
        return result

    def __copy__(self) -> "Subject":
        result = object.__new__(type(self))
        vars(result).update(vars(self), _copies={}, _built_head=None, _moved_head=None)
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> "Subject":
        result = memo[id(self)] = self.__copy__()
        with self.lock:
            parts = copy.deepcopy(vars(result) | {"_source": None}, memo)
        vars(result).update(parts)
        return result

    def record_source(self, load: "Callable[[], Subject]") -> "Subject":
        """Record how to load this subject again, which is what is pickled until the subject changes."""
        self._source = self._identity(), load
        return self

    def _identity(self) -> tuple[Any, ...]:
        return self.version, id(self.tokenizer), id(self._lm_head)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: how to load the model, or the model itself if it came from memory or has changed."""
        state = vars(copy.copy(self)) | {"_source": None}
        if self._source is None or self._source[0] != self._identity():
            return state
        return {name: value for name, value in state.items() if name not in _LOADED} | {"_source": self._source[1]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["_source"] is not None:
            loaded = state["_source"]()
            state = vars(loaded) | state | {"_source": loaded._source}
        vars(self).update(state)

    @cached_property
    def probed_pooling(self) -> Pooling | None:
        """Which positions the head reads, measured on first use; None for heads that classify no sequence."""
        default = architecture.pooling(self.model, self.task, self.causal)
        return None if default is None else probe(self, default)

    @property
    def pooling(self) -> str | None:
        """The kind of pooling, such as "first", "last" or "mean"; None for heads that classify no sequence."""
        return None if self.probed_pooling is None else self.probed_pooling.kind

    @property
    def unbatchable(self) -> bool:
        """True if the model must run one text at a time, because padding would change its output.

        Its head pools over the last token without a padding id, or it cannot mask padding, or its head reads padding.
        """
        no_padding_id = getattr(self.model.config, "pad_token_id", None) is None and self.pooling == "last"
        pools_padding = self.probed_pooling is not None and self.probed_pooling.reads_padding
        return no_padding_id or pools_padding or self._twin.once(architecture.sees_padding)

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
        if self.task == encoder_decoder.REPLY:
            arrays = encoder_decoder.inputs(encoded)
        elif (getattr(self.model.config, "type_vocab_size", 0) or 0) > 1:
            arrays["token_type_ids"] = encoded.token_type_ids
        if self._positions_from_zero:
            arrays["position_ids"] = np.broadcast_to(np.arange(encoded.longest), encoded.input_ids.shape).copy()
        return {name: torch.as_tensor(array, device=self.device) for name, array in arrays.items()}

    def with_gradients(self, gradients: "ChangedGradients") -> "Subject":
        """A copy of this subject, of the same model, that runs it with changed gradients."""
        if not hasattr(gradients, "reads_weights") or isinstance(gradients, type):
            message = f"gradients must be nbsal.passes.changed_gradients.GradientRules, not {gradients!r:.80}."
            raise InputError(message, argument="gradients", value=gradients)
        return self._cached(gradients, gradients)

    def logits(self, inputs: dict[str, Any]) -> Tensor:
        """The logits: [batch, label], for spans [batch, position, 2], else [batch, position, label or token]."""
        return self._twin.run(partial(self._run, inputs))

    def _run(self, inputs: dict[str, Any]) -> Tensor:
        self._twin.once(architecture.check_device)  # the user may have moved or converted the model
        options = {"return_dict": True, "output_hidden_states": False, "output_attentions": False}
        if self.causal or self.task == encoder_decoder.REPLY:
            options["use_cache"] = False
        with self.running(), precision_errors(self.twin):
            output = self.twin(**inputs, **options)
        span = self.task == "span"
        logits: Tensor = torch.stack((output.start_logits, output.end_logits), -1) if span else output.logits
        return logits

    def running(self, model: Any = None) -> AbstractContextManager[None]:
        """What the twin, or a part or earlier state of it, runs in, so that it has the gradients of this subject."""
        return nullcontext() if self.gradients is None else self.gradients.running(model or self.twin)

    def pooled_positions(self, encoded: Encoded) -> list[int | None]:
        """The position each text's prediction is read from; None if there is more than one."""
        if self.pooling == "first":
            return [0] * len(encoded)
        if self.pooling == "last":
            return [row.last for row in encoded]
        return [None] * len(encoded)

    def __repr__(self) -> str:
        own = OWN_HEAD if self.task in PREDICTS_TOKENS and not isinstance(self.model, StandIn) else None
        lm = self._lm_head.source if self._lm_head else own
        return (
            f"Subject({self.name!r}, task={self.task!r}, depth={self.depth}, heads={self.heads}, "
            f"labels={self.labels[:8]}, lm={lm!r})"
        )

    @property
    def _outputs(self) -> int:
        if self.usage.zero_shot is not None:
            return len(self.usage.zero_shot.labels)
        return int(getattr(self.model, "outputs", self.model.config.num_labels))


OWN_HEAD = "its own LM head"  # the source of the LM head of a model that predicts tokens
_LOADED = frozenset("_twin tokenizer text_encoder probed_pooling _lm_head".split())  # anew
