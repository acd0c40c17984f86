"""From a question to an answer: read the sources, let the model reply, score every token of the reply."""

import hashlib
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

import numpy as np
import torch

from nbsal.answers.answer import RIVALS, Answer, TokenStatistics
from nbsal.answers.generate import check_settings, generate
from nbsal.answers.hiding import Hiding
from nbsal.answers.reading import Prompt, Reading, read_prompt, tokenize_reply, with_reply
from nbsal.answers.rows import Explains, default_number, score_rows
from nbsal.answers.running import Running
from nbsal.answers.sources import parse_documents, parse_messages, parse_prompt
from nbsal.errors import InputError, ModelError, UnknownName
from nbsal.methods.perturbation import Perturbation, Random
from nbsal.model import architecture, batching, restore
from nbsal.model.composite import Composite
from nbsal.model.subject import Subject
from nbsal.model.target import NUMBERS
from nbsal.model.tokenize import token_name
from nbsal.model.tokens import Encoded
from nbsal.progress import Meter, Progress
from nbsal.validation import checked, seed_number


@checked
def explain_reply(
    explainer: Any,
    asked: Any,
    reply: Any = None,
    *,
    documents: Any = (),
    unit: Any = "sentence",
    number: str | None = None,
    template: str | None = None,
    tools: Any = None,
    seed: int | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
    on_token: Callable[[str], None] | None = None,
    **settings: Any,
) -> Answer:
    """Why a model replies what it does; see `nbsal.answer`."""
    reading, origin = read(
        explainer.subject, asked, reply, documents, template, tools, seed, cancel, on_token, settings
    )
    return explain_reading(explainer, reading, origin, unit, number, progress, cancel)


def read(
    subject: Subject,
    asked: Any,
    reply: Any,
    documents: Any,
    template: str | None,
    tools: Any,
    seed: int | None,
    cancel: Event | None,
    on_token: Callable[[str], None] | None,
    settings: dict[str, Any],
) -> tuple[Reading, dict[str, Any]]:
    """The prompt with the reply, and where the reply is from, for the provenance."""
    _check_subject(subject)
    if seed is not None:
        seed_number(seed)
    settings = check_settings(settings)
    prompt = _read_prompt(subject, asked, documents, template, tools)
    origin: dict[str, Any] = {"rendered": prompt.text}
    if prompt.placement:
        origin["documents"] = prompt.placement
    if not isinstance(asked, str):
        used = template or subject.tokenizer.chat_template
        origin["template"] = hashlib.sha256(str(used).encode()).hexdigest()
    elif getattr(subject.tokenizer, "chat_template", None):
        origin["note"] = "The prompt was read as it is. The model has a chat template, which messages would use."
    if reply is None:
        generated = generate(subject, prompt, settings, seed, on_token, cancel)
        reading = with_reply(subject, prompt, generated.ids)
        drawn = generated.drawn
        origin |= {"reply": "generated", "generate": {k: v for k, v in settings.items() if _is_plain(v)}, "seed": seed}
    else:
        ids, way = (tokenize_reply(subject, prompt, reply)) if isinstance(reply, str) else (reply, "as ids")
        reading, drawn = with_reply(subject, prompt, _checked_ids(subject, ids)), None
        origin |= {"reply": f"given {'as text, read ' if isinstance(reply, str) else ''}{way}"}
    if len(reading.row) > subject.max_length:
        message = (
            f"Prompt and reply have {len(prompt.ids)} and {len(reading.reply_ids)} tokens, but the model reads at most "
            f"{subject.max_length}. Nothing is cut off: shorten the prompt."
        )
        raise InputError(message, argument="asked", value=asked)
    if all(reading.reply_special):
        raise InputError("The reply has special tokens only.", argument="reply", value=reply)
    return reading, origin | {"drawn": drawn}


def explain_reading(
    explainer: Explains,
    reading: Reading,
    origin: dict[str, Any],
    unit: Any,
    number: str | None,
    progress: Progress = False,
    cancel: Event | None = None,
) -> Answer:
    """The answer for a prompt and a reply that were read already."""
    if number is not None and number not in NUMBERS:
        raise UnknownName("number", number, NUMBERS)
    number = number or default_number(explainer)
    units = reading.units(unit)
    hides = isinstance(explainer.method, Perturbation) and not isinstance(explainer.method, Random)
    if hides and not units:
        message = f"The prompt has no {unit} to hide. Choose another unit."
        raise InputError(message, argument="unit", value=unit)
    hiding = Hiding(explainer.subject, reading, units, number)
    with Meter(len(reading.reply_ids), progress, cancel) as meter:
        scores = score_rows(explainer, reading, number, units, hiding, meter)
    if not np.isfinite(scores).all():
        message = f"Some scores of {explainer.subject.name} are NaN or infinite. Load it with dtype='float32'."
        raise ModelError(message, part="scores")
    origin = dict(origin)
    statistics = _statistics(explainer.subject, reading, origin.pop("drawn", None))
    provenance = explainer.provenance | origin | {"unit": unit if isinstance(unit, str) else "spans", "number": number}
    if hides:
        provenance |= {"hidden": hiding.way, "subsets": hiding.forwards}
    running = Running(explainer, reading, number, units, hiding)
    return Answer(
        reading=reading,
        scores=scores,
        statistics=statistics,
        units=tuple(units),
        method=explainer.method.name,
        number=number,
        linear=explainer.method.linear,
        provenance=provenance,
        running=running,
    )


def _check_subject(subject: Subject) -> None:
    if subject.task != "next-token" or isinstance(subject.model, Composite):
        message = f"{subject.name} writes no replies: its task is {subject.task!r}. Use nbsal.Explainer."
        raise ModelError(message, part="task")
    if subject.tokenizer is None or not subject.tokenizer.is_fast:
        message = f"{subject.name} needs a fast tokenizer. Pass nbsal.load(..., tokenizer=...)."
        raise InputError(message, argument="tokenizer")


def _read_prompt(subject: Subject, asked: Any, documents: Any, template: str | None, tools: Any) -> Prompt:
    parsed = parse_documents(documents)
    if isinstance(asked, str):
        return read_prompt(subject, parse_prompt(asked, parsed), None, None)
    used = template or getattr(subject.tokenizer, "chat_template", None)
    if not used:
        message = f"The tokenizer of {subject.name} has no chat template. Pass template=..., or asked as one text."
        raise InputError(message, argument="template", value=template)
    request = parse_messages(asked, parsed, templated="documents" in str(used))
    if request.messages is not None and request.messages[-1]["role"] == "assistant":
        message = "The last message is the assistant's. Pass its content as reply=..., without the message."
        raise InputError(message, argument="asked", value=asked)
    return read_prompt(subject, request, template, tools)


def _checked_ids(subject: Subject, ids: Any) -> list[int]:
    """The tokens of a reply that exist in the vocabulary."""
    size = subject.model.config.vocab_size
    try:
        values = [int(index) for index in (ids.tolist() if hasattr(ids, "tolist") else ids)]
    except (TypeError, ValueError):
        values = []
    if not values or not all(0 <= index < size for index in values):
        message = f"reply must be a text, or token ids from 0 to {size - 1}."
        raise InputError(message, argument="reply", value=ids)
    return values


def _statistics(subject: Subject, reading: Reading, drawn: Any) -> TokenStatistics:
    """What the model says of each token, from one forward pass."""
    encoded = Encoded([reading.row], subject.text_encoder.pad_id)

    def run() -> torch.Tensor:
        with batching.memory_errors(), torch.inference_mode(), architecture.eval_mode(subject.model):
            logits = subject.logits(subject.inputs(encoded))[0, reading.start - 1 : -1]
            return logits.to(torch.float64 if logits.dtype == torch.float64 else torch.float32).log_softmax(-1).cpu()

    logprobs = restore.exclusively(subject.model, run)
    ids = torch.tensor(reading.reply_ids)[:, None]
    chosen = logprobs.gather(1, ids)
    best, tokens = logprobs.topk(min(RIVALS + 1, logprobs.shape[1]), dim=1)
    return TokenStatistics(
        logprob=chosen[:, 0].double().numpy(),
        rank=((logprobs > chosen).sum(1) + 1).numpy(),
        entropy=-(logprobs.exp() * logprobs).nan_to_num().sum(1).double().numpy(),
        rivals=tuple(
            _rivals(subject, reading.reply_ids[i], best[i].exp().tolist(), tokens[i].tolist()) for i in range(len(ids))
        ),
        drawn=drawn,
    )


def _rivals(
    subject: Subject, token: int, chances: Sequence[float], tokens: Sequence[int]
) -> tuple[tuple[str, float], ...]:
    """The likeliest tokens other than the one in the reply."""
    others = [(index, chance) for index, chance in zip(tokens, chances, strict=True) if index != token]
    return tuple((token_name(subject.tokenizer, index), chance) for index, chance in others[:RIVALS])


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
