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
from nbsal.model.running import architecture, batching, restore
from nbsal.model.subject import Subject
from nbsal.support.errors import Cancelled, InputError, NbsalError, UnknownName
from nbsal.support.validation import positive_number

DEFAULTS = {"do_sample": False, "max_new_tokens": 128}
SEVERAL = ("num_return_sequences", "num_beam_groups")  # settings that would give more than one reply
ARGUMENTS = (  # of `nbsal.answer`
    "asked", "reply", "documents", "method", "unit", "number", "template", "tools", "seed", "batch_size", "progress",
    "cancel", "on_token",
)  # fmt: skip
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
            problem = f"{name}={value!r:.40} is neither an argument of nbsal.answer nor a setting of model.generate."
            choice = "The settings are those of transformers.GenerationConfig."
            raise UnknownName("generate", name, [*ARGUMENTS, *valid], problem, choice)
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
    """The reply of the model; without a seed, drawn tokens follow the global random numbers.

    The error of a cancelled call has the text that was written as `partial`.
    """
    size, most = len(prompt.ids) - prompt.source_size, settings["max_new_tokens"]  # what stands before the reply
    if not fits(subject, prompt, settings):
        message = (
            f"The prompt has {size} tokens, and max_new_tokens={most} more do not fit into the {subject.max_length} "
            "that the model reads. Shorten the prompt or pass a smaller max_new_tokens."
        )
        raise InputError(message, argument="max_new_tokens", value=most)
    follow = _Follower(subject, on_token, cancel, size)
    ids = torch.tensor([prompt.ids[: prompt.source_size or None]])
    try:
        output = run_generate(subject, ids, torch.ones_like(ids), settings, seed, follow)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        if follow.started or isinstance(error, NbsalError):  # of the caller's function, or of the model itself
            raise
        message = f"The model cannot write with these settings of generate: {error}"
        raise InputError(message, argument="generate", value=settings) from error
    reply = output.sequences[0, size:].tolist()
    if cancel is not None and cancel.is_set():
        stopped = Cancelled("Cancelled while the model was writing. The error has what it wrote as partial.")
        stopped.partial = decode(subject.tokenizer, reply)
        raise stopped
    if not reply:
        message = "The model wrote nothing. Pass a reply, or other settings of generate."
        raise InputError(message, argument="reply", value=None)
    first = len(output.scores) - len(reply)  # a forced language comes before
    return Generated(reply, drawn_chances(output, 0, first, reply))


def fits(subject: Subject, prompt: Prompt, settings: dict[str, Any]) -> bool:
    """Whether the model can read a prompt with the longest reply to it."""
    return len(prompt.ids) - prompt.source_size + int(settings["max_new_tokens"]) <= subject.max_length


def run_generate(
    subject: Subject, ids: torch.Tensor, mask: torch.Tensor, settings: dict[str, Any], seed: int | None, follow: Any
) -> Any:
    """What `model.generate` returns for some prompts; `follow` is called after each token and may stop it."""
    ids, mask = ids.to(subject.device), mask.to(subject.device)

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
                attention_mask=mask,
                return_dict_in_generate=True,
                output_scores=True,
                stopping_criteria=[follow],
                **{"pad_token_id": subject.text_encoder.pad_id} | settings,
                **({"tokenizer": subject.tokenizer} if settings.get("stop_strings") else {}),
            )

    return restore.exclusively(subject.model, run)


def drawn_chances(output: Any, row: int, first: int, reply: Sequence[int]) -> NDArray[np.float64] | None:
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
