"""From a question to an answer: read the sources, let the model reply, score every token of the reply."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

import numpy as np

from nbsal.answers import sides
from nbsal.answers.answer import Answer
from nbsal.answers.generate import Generated, check_settings, generate
from nbsal.answers.hiding import Hiding
from nbsal.answers.reading import Prompt, Reading, Unit, check_length, read_prompt, tokenize_reply, with_reply
from nbsal.answers.rows import Rows, default_number, score_rows
from nbsal.answers.running import Explains, Running
from nbsal.answers.sources import PLACEHOLDER, parse_documents, parse_messages, parse_prompt
from nbsal.answers.statistics import TokenStatistics, token_statistics
from nbsal.methods.perturbation import Perturbation
from nbsal.model.loading.composite import Composite
from nbsal.model.sides import REPLY
from nbsal.model.subject import Subject
from nbsal.model.target import NUMBERS
from nbsal.support.errors import Cancelled, InputError, ModelError, UnknownName
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, plural, positive_number, seed_number, whole_number

PURPOSES = {
    "sequence": "classifies texts",
    "token": "classifies tokens",
    "span": "finds answers in a text",
    "masked": "fills in masked tokens",
}
INSTEAD = "Explain its decisions with nbsal.Explainer (`nbsal explain`), or load a model that generates text."
UNREAD = ("document", "not read")


@checked
def explain_reply(
    explainers: Any,
    asked: Any,
    reply: Any = None,
    *,
    documents: Any = (),
    unit: Any = "sentence",
    number: str | None = None,
    template: str | None = None,
    tools: Any = None,
    seed: int | None = None,
    batch_size: int | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
    on_token: Callable[[str], None] | None = None,
    **generate: Any,
) -> dict[str, Answer]:
    """Why a model replies what it does, by each of some explainers of it; see `nbsal.answer`."""
    subject = next(iter(explainers.values())).subject
    reading, origin = read(subject, asked, reply, documents, template, tools, seed, cancel, on_token, generate)
    with Meter(len(reading.reply_ids) * len(explainers), progress, cancel) as meter:
        return explain_reading(explainers, reading, origin, unit, number, batch_size, meter)


@contextmanager
def one_method() -> Iterator[None]:
    """Around a call with one method: the error of a cancelled call has its answer in place of a dict of answers."""
    try:
        yield
    except Cancelled as error:
        if isinstance(error.partial, dict):
            (error.partial,) = error.partial.values()
        raise


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
    written: Generated | None = None,
) -> tuple[Reading, dict[str, Any]]:
    """The prompt with the reply, and where the reply is from, for the provenance.

    `written` is what the model has already written with these settings.
    """
    if seed is not None:
        seed_number(seed)
    prompt = read_asked(subject, asked, documents, template, tools, settings)
    settings = check_settings(settings)
    origin: dict[str, Any] = {"rendered": prompt.text}
    if prompt.source_size:
        origin["reply begins with"] = list(prompt.tokens[prompt.source_size :])
    if prompt.placement:
        origin["documents"] = prompt.placement
    for status in ("rewritten", "not read"):
        if names := [name for name, s in zip(prompt.names, prompt.sources, strict=True) if s.status == status]:
            origin[status] = names
    if not isinstance(asked, str):
        used = template or subject.tokenizer.chat_template
        origin["template"] = hashlib.sha256(str(used).encode()).hexdigest()
    elif getattr(subject.tokenizer, "chat_template", None):
        origin["note"] = "The prompt was read as it is. The model has a chat template, which messages would use."
    if reply is None:
        generated = written or generate(subject, prompt, settings, seed, on_token, cancel)
        reading = with_reply(subject, prompt, generated.ids)
        drawn = generated.drawn
        origin |= {"reply": "generated", "generate": {k: v for k, v in settings.items() if _is_plain(v)}, "seed": seed}
    else:
        ids, way = (tokenize_reply(subject, prompt, reply)) if isinstance(reply, str) else (reply, "as ids")
        reading, drawn = with_reply(subject, prompt, _checked_ids(subject, prompt, ids)), None
        origin |= {"reply": f"given {'as text, read ' if isinstance(reply, str) else ''}{way}"}
    check_length(subject, len(prompt.ids) - prompt.source_size, len(reading.reply_ids), "asked", asked)
    if all(reading.reply_special):
        message = "The reply has special tokens only. Pass another reply, or other settings of generate."
        raise InputError(message, argument="reply", value=reply)
    return reading, origin | {"drawn": drawn}


def read_asked(
    subject: Subject, asked: Any, documents: Any, template: str | None, tools: Any, settings: dict[str, Any]
) -> Prompt:
    """The prompt, and of a decoder beside an encoder what it begins with."""
    _check_subject(subject)
    settings = check_settings(settings)
    prompt = _read_prompt(subject, asked, documents, template, tools)
    check_length(subject, len(prompt.ids), 0, "asked", asked)
    unread = [name for name, s in zip(prompt.names, prompt.sources, strict=True) if (s.kind, s.status) == UNREAD]
    if unread:
        message = f"The chat template leaves out {unread[0]}. Write {PLACEHOLDER} where documents shall stand."
        raise InputError(message, argument="documents", value=documents)
    return sides.with_start(subject, prompt, settings) if subject.task == REPLY else prompt


def explain_reading(
    explainers: Mapping[str, Explains],
    reading: Reading,
    origin: dict[str, Any],
    unit: Any,
    number: str | None,
    batch_size: int | None,
    meter: Meter | None = None,
) -> dict[str, Answer]:
    """An answer by each explainer of one model, for a prompt and a reply that were read already.

    `meter` counts the tokens of the reply once for each explainer. A cancelled call keeps the tokens that were
    explained: its error has the answers as `partial`, with zeros as the scores of all other tokens.
    """
    if number is not None and number not in NUMBERS:
        raise UnknownName("number", number, NUMBERS)
    if batch_size is not None:
        batch_size = positive_number(batch_size, "batch_size")
    runnings = _runnings(explainers, reading, reading.units(unit), unit, number, batch_size)
    origin = dict(origin)
    subject, drawn = next(iter(explainers.values())).subject, origin.pop("drawn", None)
    statistics = token_statistics(subject, reading, drawn)
    rows = {name: Rows.empty(running) for name, running in runnings.items()}
    level = unit if isinstance(unit, str) else "spans"

    def answers() -> dict[str, Answer]:
        return {
            name: _answer(running, rows[name], statistics, origin | {"unit": level, "number": running.number})
            for name, running in runnings.items()
        }

    try:
        score_rows(runnings, rows, meter or Meter(None), batch_size)
    except Cancelled as error:
        error.partial = answers()
        raise
    return answers()


def _runnings(
    explainers: Mapping[str, Explains],
    reading: Reading,
    units: Sequence[Unit],
    unit: Any,
    number: str | None,
    batch_size: int | None,
) -> dict[str, Running]:
    """What explains the reply, by name; methods that hide units in the same way share the runs."""
    hidings: dict[str | int, Hiding] = {}
    runnings = {}
    for name, explainer in explainers.items():
        method = explainer.method
        way: str | int = "remove"
        if isinstance(method, Perturbation):
            way = method.way
            if len(units) < method.fewest_units:
                message = (
                    f"{method.name} needs {plural(method.fewest_units, 'unit')} or more to hide, but at unit={unit!r} "
                    f"the prompt has {len(units)}. Choose a smaller unit."
                )
                raise InputError(message, argument="unit", value=unit)
        if way not in hidings:
            hidings[way] = Hiding(explainer.subject, reading, units, way, batch_size)
        runnings[name] = Running(explainer, reading, number or default_number(explainer), units, hidings[way])
    return runnings


def _answer(running: Running, rows: Rows, statistics: TokenStatistics, origin: dict[str, Any]) -> Answer:
    """One method's answer, with its provenance."""
    explainer, method = running.explainer, running.method
    if not np.isfinite(rows.scores).all():
        message = f"Some scores of {explainer.subject.name} are NaN or infinite. Load it with dtype='float32'."
        raise ModelError(message, part="scores")
    provenance = explainer.provenance | origin
    if isinstance(method, Perturbation):
        subsets = {subset.tobytes() for subset in running.coalitions(method)}
        provenance |= {"parameters": method.parameters(), "hidden": running.hiding.way, "subsets": len(subsets)}
    provenance |= rows.completeness
    if rows.explained < len(rows.scores):
        provenance["explained"] = rows.explained
    return Answer(
        reading=running.reading,
        scores=rows.scores,
        statistics=statistics,
        units=tuple(running.units),
        method=method.name,
        number=running.number,
        linear=method.linear,
        provenance=provenance,
        running=running,
    )


def _check_subject(subject: Subject) -> None:
    if subject.task not in ("next-token", REPLY) or isinstance(subject.model, Composite):
        does = PURPOSES.get(subject.task, "has no head that writes text")
        message = f"{subject.name} {does} and cannot write a reply. {INSTEAD}"
        raise ModelError(message, part="task")
    if not (subject.causal or subject.task == REPLY):
        message = f"{subject.name} cannot write a reply: its tokens read what follows them. {INSTEAD}"
        raise ModelError(message, part="attention mask")
    if subject.tokenizer is None or not (subject.tokenizer.is_fast or subject.task == REPLY):
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


def _checked_ids(subject: Subject, prompt: Prompt, ids: Any) -> list[int]:
    """The tokens of a reply that exist in the vocabulary."""
    size = subject.model.config.vocab_size
    try:
        values = [whole_number(index, "reply") for index in (ids.tolist() if hasattr(ids, "tolist") else ids)]
        values = sides.without_start(prompt, values) if prompt.source_size else values
    except (TypeError, ValueError):
        values = []
    if not values or not all(0 <= index < size for index in values):
        message = f"reply must be a text, or token ids from 0 to {size - 1}."
        raise InputError(message, argument="reply", value=ids)
    return values


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
