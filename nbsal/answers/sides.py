"""Replies of encoder-decoders: what their decoders begin with, and the source hidden from encoder and decoder."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from nbsal.answers.reading import Prompt, Reading
from nbsal.model.subject import Subject
from nbsal.support.errors import InputError, ModelError


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


def decoder_inputs(subject: Subject, reading: Reading, count: int) -> dict[str, torch.Tensor]:
    """What a decoder reads beside each of some sources: its first tokens and the reply."""
    ids = torch.tensor(reading.row.ids[reading.prompt.source_size :], device=subject.device).expand(count, -1)
    return {"decoder_input_ids": ids, "decoder_attention_mask": torch.ones_like(ids)}


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
