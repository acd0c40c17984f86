"""Replies of encoder-decoders: what their decoders begin with, and the source hidden from encoder and decoder."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbsal.answers.reading import Prompt, Reading
from nbsal.errors import InputError, ModelError
from nbsal.model.subject import Subject
from nbsal.model.target import number_of

Floats = NDArray[np.float64]


def decoder_start(subject: Subject, settings: dict[str, Any]) -> list[int]:
    """The tokens that a decoder begins with: its first one, then that of a language, if one is forced."""
    names = ("decoder_start_token_id", "bos_token_id")
    first = next((value for name in names if (value := _setting(subject, settings, name)) is not None), None)
    if first is None:
        message = f"{subject.name} names no token that a reply begins with. Pass decoder_start_token_id=..."
        raise ModelError(message, part="decoder_start_token_id")
    forced = _setting(subject, settings, "forced_bos_token_id")
    return [_token(subject, value) for value in (first, forced) if value is not None]


def with_start(subject: Subject, prompt: Prompt, settings: dict[str, Any]) -> Prompt:
    """A source with the tokens that the decoder begins with behind it; they belong to the template."""
    ids = decoder_start(subject, settings)
    end = len(prompt.text)
    return replace(
        prompt,
        ids=prompt.ids + tuple(ids),
        tokens=prompt.tokens + tuple(subject.tokenizer.convert_ids_to_tokens(ids)),
        spans=prompt.spans + ((end, end),) * len(ids),
        owners=prompt.owners + (-1,) * len(ids),
        places=prompt.places + (None,) * len(ids),
        special=prompt.special + (True,) * len(ids),
        source_size=len(prompt.ids),
    )


def without_start(prompt: Prompt, ids: Sequence[int]) -> list[int]:
    """The tokens of a reply without those that the decoder begins with, which `generate` and tokenizers add."""
    begins = list(prompt.ids[prompt.source_size :])
    for start in (begins, begins[1:]):
        if start and list(ids[: len(start)]) == start:
            return list(ids[len(start) :])
    return list(ids)


def numbers_of_reply(
    subject: Subject, reading: Reading, visible: Sequence[NDArray[np.int64]], number: str
) -> list[Floats]:
    """The numbers of the reply's tokens with only some positions of the source visible, for each list of positions.

    Hidden tokens stay in place, since encoders measure distances in many ways; neither side attends to them.
    """
    size, ids = reading.prompt.source_size, torch.tensor(reading.row.ids, device=subject.device)
    mask = torch.zeros(len(visible), size, dtype=torch.long, device=subject.device)
    for i, places in enumerate(visible):
        mask[i, [place for place in places if place < size]] = 1
    decoder_ids = ids[size:-1].expand(len(visible), -1)
    logits = subject.logits(
        {
            "input_ids": ids[:size].expand(len(visible), -1),
            "attention_mask": mask,
            "decoder_input_ids": decoder_ids,
            "decoder_attention_mask": torch.ones_like(decoder_ids),
        }
    )
    outcomes = ids[reading.start :].expand(len(visible), -1)
    return list(number_of(logits[:, reading.position(0) :], outcomes, number).double().cpu().numpy())


def _setting(subject: Subject, settings: dict[str, Any], name: str) -> Any:
    """A setting of `generate`: as it was passed, or the model's own."""
    own = (subject.transformer.generation_config, subject.transformer.config)
    values = (settings.get(name), *(getattr(config, name, None) for config in own))
    return next((value for value in values if value is not None), None)


def _token(subject: Subject, value: Any) -> int:
    size = subject.model.config.vocab_size
    if not isinstance(value, int) or not 0 <= value < size:
        message = f"{value!r:.40} is no token that a reply may begin with. Pass an id from 0 to {size - 1}."
        raise InputError(message, argument="decoder_start_token_id", value=value)
    return value
