"""Let a model write replies: streamed, cancelled between tokens, repeatable by a seed; several at once if it can."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbsal.explain.prompt.prompts import UNFINISHED, content_ids, decode, how_to_shorten
from nbsal.explain.prompt.reading import Prompt
from nbsal.explain.reply_settings import ReplySettings
from nbsal.model.loading.composite import transformer_of
from nbsal.model.running.layers import forward_mode
from nbsal.model.running.memory import run_in_halves
from nbsal.model.running.modes import Mode
from nbsal.model.running.twin import precision_errors
from nbsal.model.subject import Subject
from nbsal.support.errors import Cancelled, InputError, ModelError, NbsalError

OPTIONS = {"do_sample", "max_new_tokens"}  # settings of `generate` that treat each prompt by itself
NO_EFFECT = {
    *("do_sample", "max_new_tokens", "max_length", "temperature", "top_k", "top_p", "min_p", "typical_p", "top_h"),
    *("epsilon_cutoff", "eta_cutoff", "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    *("use_cache", "return_dict_in_generate", "early_stopping", "length_penalty", "max_matching_ngram_size"),
    *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
    *("assistant_lookbehind", "target_lookbehind", "disable_compile", "transformers_version"),
}  # settings in a model's own configuration that play no part in greedy search
NEUTRAL = (None, False, 0, 1)  # values of all others that switch them off


@dataclass(frozen=True)
class Generated:
    """The tokens of a reply, and the probability of each after the settings had changed the model's own."""

    ids: list[int]
    drawn: NDArray[np.float64] | None


def generate(subject: Subject, prompt: Prompt, settings: ReplySettings) -> Generated:
    """The reply of the model; without a seed, drawn tokens follow the global random numbers.

    The error of a cancelled call has the text that was written as `partial`.
    """
    size, most = len(prompt.ids) - prompt.source_size, settings.generate["max_new_tokens"]  # size: before the reply
    if not _fits(subject, prompt, settings.generate):
        message = (
            f"The prompt has {size:,} tokens, and max_new_tokens={most} more do not fit into the "
            f"{subject.max_length:,} that the model reads. Pass a smaller max_new_tokens, or a shorter prompt. "
            f"{how_to_shorten(prompt, subject.max_length - most)}"
        )
        raise InputError(message, argument="max_new_tokens", value=most)
    follow = _Follower(subject, settings, size)
    ids = torch.tensor([prompt.ids[: prompt.source_size or None]])
    try:
        output = _run_generate(subject, ids, torch.ones_like(ids), settings.generate, settings.seed, follow)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        if follow.started or isinstance(error, NbsalError):  # of the caller's function, or of the model itself
            raise
        message = f"The model cannot write with these settings of generate: {error}"
        raise InputError(message, argument="generate", value=settings.generate) from error
    reply = output.sequences[0, size:].tolist()
    if settings.cancel is not None and settings.cancel.is_set():
        stopped = Cancelled("Cancelled while the model was writing. The error has what it wrote as partial.")
        stopped.partial = decode(subject.tokenizer, content_ids(subject.tokenizer, reply))
        raise stopped
    if not reply:
        message = "The model wrote nothing. Pass a reply, or other settings of generate."
        raise InputError(message, argument="reply", value=None)
    first = len(output.scores) - len(reply)  # a forced language comes before
    return Generated(reply, _drawn_chances(output, 0, first, reply))


def _fits(subject: Subject, prompt: Prompt, settings: Mapping[str, Any]) -> bool:
    """Whether the model can read a prompt with the longest reply to it."""
    return len(prompt.ids) - prompt.source_size + int(settings["max_new_tokens"]) <= subject.max_length


def _run_generate(
    subject: Subject, ids: torch.Tensor, mask: torch.Tensor, settings: Mapping[str, Any], seed: int | None, follow: Any
) -> Any:
    """What `model.generate` returns for some prompts; `follow` is called after each token and may stop it."""
    ids, mask = ids.to(subject.device), mask.to(subject.device)

    def run() -> Any:
        with (
            forward_mode(gradients=False),
            nullcontext() if seed is None else _Draws(torch.Generator(subject.device).manual_seed(seed)),
            precision_errors(subject.model),
        ):
            return transformer_of(subject.twin).generate(
                ids,
                attention_mask=mask,
                return_dict_in_generate=True,
                output_scores=True,
                stopping_criteria=[follow],
                **{"pad_token_id": subject.text_encoder.pad_id} | dict(settings),
                **({"tokenizer": subject.tokenizer} if settings.get("stop_strings") else {}),
            )

    return subject.exclusively(run)


class _Draws(Mode):
    """Draws tokens with a generator of its own, since other threads may draw from the global one meanwhile."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator

    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        own = {"generator": self._generator} if func is torch.multinomial else {}
        return func(*args, **kwargs | own)


def _drawn_chances(output: Any, row: int, first: int, reply: Sequence[int]) -> NDArray[np.float64] | None:
    """The probability that each token of a row was drawn with, of which the first one was in step number `first`.

    None for beams, whose scores are of other sequences.
    """
    if getattr(output, "beam_indices", None) is not None or first < 0:
        return None
    steps = output.scores[first : first + len(reply)]
    chances = [float(scores[row].softmax(-1)[token]) for scores, token in zip(steps, reply, strict=True)]
    return np.array(chances)


class _Follower:
    """Called by `generate` after each token: passes the text on, and stops when the call is cancelled."""

    def __init__(self, subject: Subject, settings: ReplySettings, start: int) -> None:
        self._tokenizer, self._on_token, self._cancel = subject.tokenizer, settings.on_token, settings.cancel
        self._start = start  # of the reply
        self._passed = ""
        self.started = False  # whether a token has been written

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Whether each sequence is at its end."""
        self.started = True
        if self._on_token is not None:
            text = decode(self._tokenizer, content_ids(self._tokenizer, input_ids[0, self._start :].tolist()))
            if not text.endswith(UNFINISHED) and len(text) > len(self._passed):
                self._on_token(text[len(self._passed) :])
                self._passed = text
        stop = self._cancel is not None and self._cancel.is_set()
        return torch.full((len(input_ids),), stop, device=input_ids.device, dtype=torch.bool)


def writes_each_alone(subject: Subject, settings: Mapping[str, Any]) -> bool:
    """Whether a model writes greedily and unconstrained, so that padding before a prompt has no effect.

    Drawn tokens have a seed for each prompt, and penalties would count the padding.
    """
    if subject.task != "next-token" or subject.unbatchable or settings.get("do_sample") or set(settings) - OPTIONS:
        return False
    configuration = vars(subject.transformer.generation_config)
    return all(name in NO_EFFECT or name.startswith("_") or value in NEUTRAL for name, value in configuration.items())


def generate_batch(
    subject: Subject, prompts: Mapping[int, Prompt], settings: Mapping[str, Any], check: Callable[[], None]
) -> dict[int, Generated]:
    """The replies to prompts, but for those that must be written alone. `check` is called for every token."""
    places = [place for place, prompt in prompts.items() if _fits(subject, prompt, settings)]
    replies: dict[int, Generated] = {}
    if len(places) > 1:
        for part in run_in_halves(places, lambda some: _run(subject, prompts, some, settings, check)):
            replies |= part
    return replies


def _run(
    subject: Subject,
    prompts: Mapping[int, Prompt],
    places: Sequence[int],
    settings: Mapping[str, Any],
    check: Callable[[], None],
) -> dict[int, Generated]:
    longest = max(len(prompts[place].ids) for place in places)
    ids = torch.full((len(places), longest), subject.text_encoder.pad_id)
    mask = torch.zeros_like(ids)
    for row, place in enumerate(places):
        size = len(prompts[place].ids)
        ids[row, longest - size :] = torch.tensor(prompts[place].ids)
        mask[row, longest - size :] = 1

    def follow(input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        check()
        return torch.zeros(len(input_ids), device=input_ids.device, dtype=torch.bool)

    output = _run_generate(subject, ids, mask, settings, None, follow)
    end = subject.transformer.generation_config.eos_token_id
    ends = {end} if isinstance(end, int) else set(end or ())
    replies = {}
    for row, place in enumerate(places):
        tokens = output.sequences[row, longest:].tolist()
        size = next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))
        if reply := tokens[:size]:
            replies[place] = Generated(reply, _drawn_chances(output, row, 0, reply))
    return replies


def with_start(subject: Subject, prompt: Prompt, settings: Mapping[str, Any]) -> Prompt:
    """A source with the tokens that the decoder begins with behind it; they belong to the template.

    They are its first one, then that of a language, if one is forced.
    """
    names = ("decoder_start_token_id", "bos_token_id")
    first = next((value for name in names if (value := _setting(subject, settings, name)) is not None), None)
    if first is None:
        message = f"{subject.name} names no token that a reply begins with. Pass decoder_start_token_id=..."
        raise ModelError(message, part="decoder_start_token_id")
    forced = _setting(subject, settings, "forced_bos_token_id")
    ids, end = [_token(subject, value) for value in (first, forced) if value is not None], len(prompt.text)
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


def _setting(subject: Subject, settings: Mapping[str, Any], name: str) -> Any:
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
