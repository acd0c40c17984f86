"""The two sides of an encoder-decoder that writes replies: the encoder reads the source, the decoder the reply so far.

The tokens of both sides are one row, whose types tell them apart: 0 for those of the source, then 1 for what the
decoder reads. A hidden layer is a layer of the encoder, joined with the decoder's input, since these two determine the
output together. Logits are those of the decoder's positions only.
"""

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.errors import InputError, ModelError

SOURCE, REPLY = "source", "reply"  # the sides; the task of such a model is called like the second one
WRITERS = ("next-token", REPLY)  # tasks of models that write replies
CLASSES = ("ForConditionalGeneration", "MTModel")  # how the names of their classes end


def writes_replies(model: Any) -> bool:
    """Whether a model is an encoder-decoder with an LM head, such as T5, BART or Marian."""
    config = getattr(model, "config", None)
    return type(model).__name__.endswith(CLASSES) and bool(getattr(config, "is_encoder_decoder", False))


def check_reads_tokens(model: Any) -> None:
    """Refuse an encoder-decoder whose encoder reads something else than tokens."""
    if "input_ids" not in inspect.signature(model.get_encoder().forward).parameters:
        message = f"The encoder of {type(model).__name__} reads no tokens. nbsal explains models of text."
        raise ModelError(message, part="input")


def depth(model: Any, side: str) -> int:
    """The number of blocks of a side."""
    config = model.config
    names = ("num_hidden_layers",) if side == SOURCE else ("num_decoder_layers", "decoder_layers")
    return next((int(count) for name in names if (count := getattr(config, name, None)) is not None), 0)


def source_size(row: Row) -> int:
    """How many tokens of a row the encoder reads."""
    return len(row) - sum(row.types)


def inputs(encoded: Encoded) -> dict[str, NDArray[np.int64]]:
    """The padded inputs of both sides; the rows of a batch have sources of the same length."""
    sizes = {source_size(row) for row in encoded}
    if len(sizes) > 1:
        message = "The texts of a batch have sources of different lengths. Explain the replies to each by themselves."
        raise InputError(message, argument="encoded", value=encoded)
    (size,) = sizes
    ids, mask = encoded.input_ids, encoded.attention_mask
    arrays = {"input_ids": ids[:, :size], "attention_mask": mask[:, :size]}
    return arrays | {"decoder_input_ids": ids[:, size:], "decoder_attention_mask": mask[:, size:]}


def changeable(row: Row) -> list[int]:
    """The positions above layer 0 at which a baseline may replace states: of the decoder's input, only the text."""
    content = set(row.content)
    return [i for i, shows in enumerate(row.mask) if shows and (not row.types[i] or i in content)]
