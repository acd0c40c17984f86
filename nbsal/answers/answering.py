"""Why a model replied what it replied: from a question to an answer, the entry point to this room."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Event
from typing import Any
from weakref import WeakSet

import numpy as np
from torch import nn

from nbsal.answers import generate as writing
from nbsal.answers.answer import Answer
from nbsal.answers.evidence import measure, passes
from nbsal.answers.generate import Generated
from nbsal.answers.hiding import Hiding
from nbsal.answers.hops import Count, no_rows
from nbsal.answers.prompts import check_length, read_prompt, skips_template, tokenize_reply, with_reply
from nbsal.answers.reading import Prompt, Reading, TokenStatistics
from nbsal.answers.rows import Rows, default_number, score_rows
from nbsal.answers.running import Running
from nbsal.answers.settings import ReplySettings, plain_settings, split_settings
from nbsal.answers.sources import PLACEHOLDER, parse_documents, parse_messages, parse_prompt
from nbsal.answers.statistics import token_statistics
from nbsal.explain.explainer import Explainer
from nbsal.methods import catalogue
from nbsal.methods.base import REGISTER, Method
from nbsal.methods.default import default_method
from nbsal.methods.perturbation import Perturbation
from nbsal.model.loading.composite import Composite
from nbsal.model.sides import REPLY
from nbsal.model.subject import Subject
from nbsal.model.target import DIVERGENCE
from nbsal.support.errors import Cancelled, InputError, ModelError
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, plural, whole_number
from nbsal.support.warning import warn

PURPOSES = {
    "sequence": "classifies texts",
    "token": "classifies tokens",
    "span": "finds answers in a text",
    "masked": "fills in masked tokens",
}
INSTEAD = "Explain its decisions with nbsal.Explainer (`nbsal explain`), or load a model that generates text."
UNREAD = ("document", "not read")
_WARNED: WeakSet[nn.Module] = WeakSet()  # models whose chat template a prompt has skipped
# Of a reading, in its provenance.
ORIGIN = (
    "rendered",
    "documents",
    "rewritten",
    "not read",
    "template",
    "template settings",
    "note",
    "reply",
    "generate",
    "seed",
)


@checked
def answer(
    subject: Subject,
    asked: Any,
    reply: Any = None,
    *,
    documents: Any = (),
    method: str | Method | Sequence[str | Method] | Mapping[str, str | Method] | None = None,
    unit: Any = "sentence",
    number: str | None = None,
    template: str | None = None,
    tools: Any = None,
    seed: int | None = None,
    batch_size: int | None = None,
    hops: Count = 0,
    check: bool = True,
    progress: Progress = True,
    cancel: Event | None = None,
    on_token: Callable[[str], None] | None = None,
    **generate: Any,
) -> Answer | dict[str, Answer]:
    """Explain the reply of a causal language model, or of an encoder-decoder such as T5, by its sources.

    `asked` is a list of messages for the model's chat template, or a prompt that the model reads as it is; the first
    prompt that skips a model's template gives a warning. `documents` are texts, dicts with "title" and "text", or a
    dict of texts by title. They replace `{documents}` in the last message, else the template places them, else they
    stand before the question. `reply` is a text or token ids; by default the model writes it, with the settings of
    `generate` that are passed (`max_new_tokens=128`, `do_sample=False`). What the chat template reads, such as
    `enable_thinking=False`, is passed to it.

    Of an encoder-decoder, `asked` is the source text, and layers are those of the encoder. The tokens that its decoder
    begins with, a forced language (`forced_bos_token_id`) among them, belong to the template.

    `method` is a catalogue name, a method, or several, which share the reply and what they run (the result is then a
    dict of answers); the default is gae, or gradxact for models without attention. `unit` is what methods hide and what
    `sources()` speaks of: "token", "word", "sentence", "paragraph", "document", "message", or (start, end) characters
    of the last message. How units are hidden is a
    setting of the method: `nbsal.Occlusion(way="text")` writes the prompt anew without them. `number` is what is
    explained of a token: its "logprob", "logit" or "logit-prob", the logarithm of its odds; by default "logprob" for
    methods that hide ("logit-prob" for contextcite), "logit" for all others. Methods that hide also explain the
    "divergence" (Jensen-Shannon, in nats) between what the model would say there with all units and with some of them.
    It has no sign: a unit counts whether it speaks for the token, against it, or only about others in its place.

    `template` replaces the chat template, `tools` are passed to it. `seed` makes drawn tokens repeatable, `on_token`
    receives the text while the model writes it, and at most `batch_size` texts are run together. With `hops` (a number,
    or "all"), scores are followed through the earlier tokens of the reply: see `Answer.through`.

    The scores propose sources, and `check` tests them: the same reply is scored again without each source, and without
    all documents, from which every sentence is made. Without it, sentences say "not checked"; `Answer.check` does it
    later.

    After `cancel`, the `partial` of the error is what was finished: the text that the model had written, as a str, or
    else the answer (or the dict of answers) with the scores of the tokens that were explained, `explained` of them from
    the first on; all others have zeros. Methods that hide explain all tokens together, or none.

    >>> import nbsal
    >>> notes, documents = nbsal.load("demo/notes"), ["Mara lives in Oslo now.", "Boris lives in Rouen."]
    >>> question = [{"role": "user", "content": "Where does Mara live?"}]
    >>> reply = answer(notes, question, documents=documents, unit="document", method="occlusion", progress=False)
    >>> reply.text, reply.matrix("word", "document").loc["Oslo"].idxmax()
    (' Mara lives in Oslo.</s>', 'document 1')
    """
    generate, templates = split_settings(generate, subject.tokenizer, template)
    method = default_method(subject, replies=True) if method is None else method
    settings = ReplySettings(
        documents,
        unit,
        number,
        template,
        tools,
        seed,
        batch_size,
        hops,
        check,
        progress,
        cancel,
        on_token,
        generate,
        templates,
    )
    if isinstance(method, str | Method):
        return explain_one(Explainer(subject, method), asked, reply, settings)
    methods = catalogue.name_methods(method)
    if not methods:
        raise InputError("No method is named. Pass one or more.", argument="method", value=method)
    return explain_reply({name: Explainer(subject, each) for name, each in methods.items()}, asked, reply, settings)


def explain_one(explainer: Explainer, asked: Any, reply: Any, settings: ReplySettings) -> Answer:
    """Why a model replies what it does, by one explainer."""
    return explain_reply({"": explainer}, asked, reply, settings)[""]


def explain_reply(
    explainers: Mapping[str, Explainer], asked: Any, reply: Any, settings: ReplySettings
) -> dict[str, Answer]:
    """Why a model replies what it does, by each of some explainers of it; see `nbsal.answer`."""
    subject = next(iter(explainers.values())).subject
    reading, origin = read(subject, asked, reply, settings)
    hiding = Hiding(subject, reading, reading.units("sentence"), batch_size=settings.batch_size)
    steps = len(reading.reply_ids) * len(explainers)
    with Meter(steps + settings.check * passes(hiding), settings.progress, settings.cancel) as meter:
        answers = explain_reading(explainers, reading, origin, settings, meter)
        if not settings.check:
            return answers
        try:
            # What a method that hides sentences has run already is not run again.
            own = [answer.running.hiding for answer in answers.values() if answer.running is not None]
            shared = [each for each in own if each.setting == hiding.setting and each.units == hiding.units]
            evidence = measure([*shared, hiding][0], meter)
        except Cancelled as error:
            error.partial = answers.get("", answers)
            raise
    return {name: replace(answer, evidence=evidence) for name, answer in answers.items()}


def explain_again(
    answer: Answer, explainer: Explainer, progress: Progress = False, cancel: Event | None = None
) -> Answer:
    """Explain the reply of an answer by another explainer, without reading or writing it again."""
    origin = {name: answer.provenance[name] for name in ORIGIN if name in answer.provenance}
    level = answer.provenance.get("unit", "sentence")
    unit = [unit.span for unit in answer.units] if level == "spans" else level
    origin["drawn"] = answer.statistics.drawn
    with Meter(len(answer.ids), progress, cancel) as meter:
        return explain_reading({"": explainer}, answer.reading, origin, ReplySettings(unit=unit), meter)[""]


def read(
    subject: Subject, asked: Any, reply: Any, settings: ReplySettings, written: Generated | None = None
) -> tuple[Reading, dict[str, Any]]:
    """The prompt with the reply, and where the reply is from, for the provenance.

    `written` is what the model has already written with these settings.
    """
    prompt = read_asked(subject, asked, settings)
    origin: dict[str, Any] = {"rendered": prompt.text}
    if prompt.source_size:
        origin["reply begins with"] = list(prompt.tokens[prompt.source_size :])
    if prompt.placement:
        origin["documents"] = prompt.placement
    for status in ("rewritten", "not read"):
        if names := [name for name, s in zip(prompt.names, prompt.sources, strict=True) if s.status == status]:
            origin[status] = names
    if not isinstance(asked, str):
        used = settings.template or subject.tokenizer.chat_template
        origin["template"] = hashlib.sha256(str(used).encode()).hexdigest()
        if settings.template_settings:
            origin["template settings"] = plain_settings(settings.template_settings)
    elif skips_template(subject.tokenizer, asked):
        origin["note"] = "The prompt was read as it is. The model has a chat template, which messages would use."
        _warn_once(subject)
    if reply is None:
        generated = written or writing.generate(subject, prompt, settings)
        ids, drawn = generated.ids, generated.drawn
        recorded = plain_settings(settings.generate)
        origin |= {"reply": "generated", "generate": recorded, "seed": settings.seed}
    else:
        text = isinstance(reply, str)
        ids, way = tokenize_reply(subject, prompt, reply) if text else (reply, "as ids")
        ids, drawn = _checked_ids(subject, prompt, ids), None
        origin |= {"reply": f"given {'as text, read ' if text else ''}{way}"}
    reading = with_reply(subject, prompt, ids)
    check_length(subject, prompt, len(reading.reply_ids), "asked", asked)
    if all(reading.reply_special):
        message = "The reply has special tokens only. Pass another reply, or other settings of generate."
        raise InputError(message, argument="reply", value=reply)
    return reading, origin | {"drawn": drawn}


def _warn_once(subject: Subject) -> None:
    """Warn that a prompt skips the chat template, once for each model: a chat model may write gibberish then."""
    if subject.model not in _WARNED:
        _WARNED.add(subject.model)
        warn(
            f"{subject.name} has a chat template, but the prompt is a text, which is read as it is. For a reply as in "
            'a chat, ask nbsal.answer(subject, [{"role": "user", "content": ...}]).'
        )


def read_asked(subject: Subject, asked: Any, settings: ReplySettings) -> Prompt:
    """The prompt, and of a decoder beside an encoder what it begins with."""
    _check_subject(subject)
    prompt = _read_prompt(subject, asked, settings)
    check_length(subject, prompt, 0, "asked", asked, settings.generate.get("max_new_tokens", 0))
    unread = [name for name, s in zip(prompt.names, prompt.sources, strict=True) if (s.kind, s.status) == UNREAD]
    if unread:
        message = f"The chat template leaves out {unread[0]}. Write {PLACEHOLDER} where documents shall stand."
        raise InputError(message, argument="documents", value=settings.documents)
    return writing.with_start(subject, prompt, settings.generate) if subject.task == REPLY else prompt


def explain_reading(
    explainers: Mapping[str, Explainer],
    reading: Reading,
    origin: dict[str, Any],
    settings: ReplySettings,
    meter: Meter,
) -> dict[str, Answer]:
    """An answer by each explainer of one model, for a prompt and a reply that were read already.

    `meter` counts the tokens of the reply once for each explainer. A cancelled call keeps the tokens that were
    explained: its error has the answers as `partial`, with zeros as the scores of all other tokens; of an explainer
    with a blank name, its answer alone.
    """
    runnings = _runnings(explainers, reading, settings)
    origin = dict(origin)
    subject, drawn = next(iter(explainers.values())).subject, origin.pop("drawn", None)
    statistics = token_statistics(subject, reading, drawn)
    rows = {name: Rows.empty(running) for name, running in runnings.items()}
    level = settings.unit if isinstance(settings.unit, str) else "spans"

    def answers() -> dict[str, Answer]:
        return {
            name: _answer(running, rows[name], statistics, origin | {"unit": level, "number": running.number})
            for name, running in runnings.items()
        }

    try:
        score_rows(runnings, rows, meter, settings.batch_size)
    except Cancelled as error:
        error.partial = answers()
        if "" in runnings:  # one explainer, without a name
            error.partial = error.partial[""]
        raise
    return {name: answer.through(settings.hops) for name, answer in answers().items()}


def _runnings(explainers: Mapping[str, Explainer], reading: Reading, settings: ReplySettings) -> dict[str, Running]:
    """What explains the reply, by name; methods that hide units in the same way share the runs."""
    units, hidings = reading.units(settings.unit), dict[str | int, Hiding]()
    runnings = {}
    for name, explainer in explainers.items():
        method = explainer.method
        way: str | int = "remove"
        if settings.number == DIVERGENCE and not isinstance(method, Perturbation):
            raise _hides_nothing(method)
        if isinstance(method, Perturbation):
            way = method.way
            if settings.hops != 0:
                raise no_rows(method.name, settings.hops)
            if len(units) < method.fewest_units:
                message = (
                    f"{method.name} needs {plural(method.fewest_units, 'unit')} or more to hide, but at "
                    f"unit={settings.unit!r} the prompt has {len(units)}. Choose a smaller unit."
                )
                raise InputError(message, argument="unit", value=settings.unit)
        if way not in hidings:
            hidings[way] = Hiding(explainer.subject, reading, units, way, settings.batch_size)
        runnings[name] = Running(explainer, reading, settings.number or default_number(explainer), units, hidings[way])
    return runnings


def _hides_nothing(method: Method) -> InputError:
    """The error for a divergence that a method cannot explain."""
    names = [name for name, kind in REGISTER.items() if isinstance(kind, type) and issubclass(kind, Perturbation)]
    message = (
        f"number={DIVERGENCE!r} compares what is said with and without units, but {method.name} hides none. "
        f"Methods that do: {', '.join(names)}."
    )
    return InputError(message, argument="number", value=DIVERGENCE)


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
    if method.averages_span:
        provenance["span"] = "averaged"
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


def _read_prompt(subject: Subject, asked: Any, settings: ReplySettings) -> Prompt:
    parsed = parse_documents(settings.documents)
    if isinstance(asked, str):
        for name, value in settings.template_settings.items():
            message = f"{name}={value!r:.40} is a setting of the chat template, which a text skips. Ask with messages."
            raise InputError(message, argument=name, value=value)
        return read_prompt(subject, parse_prompt(asked, parsed), None, None)
    used = settings.template or getattr(subject.tokenizer, "chat_template", None)
    if not used:
        message = f"The tokenizer of {subject.name} has no chat template. Pass template=..., or asked as one text."
        raise InputError(message, argument="template", value=settings.template)
    request = parse_messages(asked, parsed, templated="documents" in str(used))
    if request.messages is not None and request.messages[-1]["role"] == "assistant":
        message = "The last message is the assistant's. Pass its content as reply=..., without the message."
        raise InputError(message, argument="asked", value=asked)
    return read_prompt(subject, request, settings.template, settings.tools, settings.template_settings)


def _checked_ids(subject: Subject, prompt: Prompt, ids: Any) -> list[int]:
    """The tokens of a reply that exist in the vocabulary."""
    size = subject.model.config.vocab_size
    try:
        values = [whole_number(index, "reply") for index in (ids.tolist() if hasattr(ids, "tolist") else ids)]
        values = writing.without_start(prompt, values) if prompt.source_size else values
    except (TypeError, ValueError):
        values = []
    if not values or not all(0 <= index < size for index in values):
        message = f"reply must be a text, or token ids from 0 to {size - 1}."
        raise InputError(message, argument="reply", value=ids)
    return values
