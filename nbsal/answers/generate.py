"""Let a model write its reply: settings checked first, streamed, cancelled between tokens, repeatable by a seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbsal.answers.reading import Prompt
from nbsal.answers.reply_text import UNFINISHED, decode
from nbsal.errors import Cancelled, InputError, NbsalError, UnknownName
from nbsal.model import architecture, batching, restore
from nbsal.model.subject import Subject
from nbsal.validation import positive_number

DEFAULTS = {"do_sample": False, "max_new_tokens": 128}
SEVERAL = ("num_return_sequences", "num_beam_groups")  # settings that would give more than one reply
OURS = ("max_length", "return_dict_in_generate", "output_scores")  # settings that nbsal itself decides


@dataclass(frozen=True)
class Generated:
    """The tokens of a reply, and the probability of each after the settings had changed the model's own."""

    ids: list[int]
    drawn: NDArray[np.float64] | None


def check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of `model.generate` with the defaults; unknown ones are refused."""
    from transformers import GenerationConfig

    valid = sorted(name for name in vars(GenerationConfig()) if not name.startswith("_"))
    for name, value in settings.items():
        if name not in valid:
            raise UnknownName("generate", name, valid, problem=f"Unknown setting {name}={value!r:.40} of generate.")
        if name in SEVERAL and value not in (None, 1):
            message = f"{name}={value} gives several replies. Explain them one at a time."
            raise InputError(message, argument=name, value=value)
        if name in OURS:
            message = f"nbsal sets {name} itself. Leave it out; max_new_tokens is the length of a reply."
            raise InputError(message, argument=name, value=value)
    settings = DEFAULTS | settings
    return settings | {"max_new_tokens": positive_number(settings["max_new_tokens"], "max_new_tokens")}


def generate(
    subject: Subject,
    prompt: Prompt,
    settings: dict[str, Any],
    seed: int | None,
    on_token: Callable[[str], None] | None,
    cancel: Event | None,
) -> Generated:
    """The reply of the model; without a seed, drawn tokens follow the global random numbers."""
    size, most = len(prompt.ids) - prompt.source_size, settings["max_new_tokens"]  # what stands before the reply
    if size + most > subject.max_length:
        message = (
            f"The prompt has {size} tokens, and max_new_tokens={most} more do not fit into the {subject.max_length} "
            "that the model reads. Shorten the prompt or pass a smaller max_new_tokens."
        )
        raise InputError(message, argument="max_new_tokens", value=most)
    follow = _Follower(subject, on_token, cancel, size)
    ids = torch.tensor([prompt.ids[: prompt.source_size or None]], device=subject.device)

    def run() -> Any:
        devices = [subject.device] if subject.device.type == "cuda" else []
        with (
            batching.memory_errors(),
            torch.inference_mode(False),
            torch.no_grad(),
            architecture.eval_mode(subject.model),
            torch.random.fork_rng(devices=devices, enabled=seed is not None),
            architecture.precision_errors(subject.model),
        ):
            if seed is not None:
                torch.manual_seed(seed)
            return subject.transformer.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                return_dict_in_generate=True,
                output_scores=True,
                stopping_criteria=[follow],
                **{"pad_token_id": subject.text_encoder.pad_id} | settings,
                **({"tokenizer": subject.tokenizer} if settings.get("stop_strings") else {}),
            )

    try:
        output = restore.exclusively(subject.model, run)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        if follow.started or isinstance(error, NbsalError):  # of the caller's function, or of the model itself
            raise
        message = f"The model cannot write with these settings of generate: {error}"
        raise InputError(message, argument="generate", value=settings) from error
    if cancel is not None and cancel.is_set():
        raise Cancelled("Cancelled while the model was writing.")
    reply = output.sequences[0, size:].tolist()
    if not reply:
        message = "The model wrote nothing. Pass a reply, or other settings of generate."
        raise InputError(message, argument="reply", value=None)
    return Generated(reply, _drawn(output, reply))


def _drawn(output: Any, reply: Sequence[int]) -> NDArray[np.float64] | None:
    """The probability that each token was drawn with; None for beams, whose scores are of other sequences."""
    if getattr(output, "beam_indices", None) is not None or len(output.scores) < len(reply):
        return None
    steps = output.scores[-len(reply) :]  # a forced language comes before
    chances = [float(scores[0].softmax(-1)[token]) for scores, token in zip(steps, reply, strict=True)]
    return np.array(chances)


class _Follower:
    """Called by `generate` after each token: passes the text on, and stops when the call is cancelled."""

    def __init__(
        self, subject: Subject, on_token: Callable[[str], None] | None, cancel: Event | None, start: int
    ) -> None:
        self._tokenizer, self._on_token, self._cancel = subject.tokenizer, on_token, cancel
        self._start = start  # of the reply
        self._passed = ""
        self.started = False  # whether a token has been written

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Whether each sequence is at its end."""
        self.started = True
        if self._on_token is not None:
            text = decode(self._tokenizer, input_ids[0, self._start :].tolist())
            if not text.endswith(UNFINISHED) and len(text) > len(self._passed):
                self._on_token(text[len(self._passed) :])
                self._passed = text
        stop = self._cancel is not None and self._cancel.is_set()
        return torch.full((len(input_ids),), stop, device=input_ids.device, dtype=torch.bool)
