"""From what is asked to the prompt that a model reads, and the tokens of a reply that is passed."""

from functools import partial
from typing import Any

from nbsal.explain.prompt import generate as writing
from nbsal.explain.prompt.prompts import check_length, read_prompt, renderer
from nbsal.explain.prompt.reading import Prompt
from nbsal.explain.prompt.sources import PLACEHOLDER, parse_documents, parse_messages, parse_prompt, uses_tools
from nbsal.explain.prompt.tool_calls import FORMS, OF_SERVERS, ToolForm
from nbsal.explain.prompt.tool_forms import find_form
from nbsal.explain.reply_settings import ReplySettings
from nbsal.explain.scoring import served
from nbsal.model.encoder_decoder import REPLY
from nbsal.model.loading.composite import Composite
from nbsal.model.served.word_tokenizer import SERVERS
from nbsal.model.subject import Subject
from nbsal.support.errors import InputError, ModelError
from nbsal.support.validation import whole_number

PURPOSES = {
    "sequence": "classifies texts",
    "token": "classifies tokens",
    "span": "finds answers in a text",
    "masked": "fills in masked tokens",
}
INSTEAD = "Explain its decisions with nbsal.Explainer (`nbsal explain`), or load a model that generates text."
UNREAD = ("document", "not read")


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
    if (server := served.server_of(subject)) is not None:
        served.check_rendering(server, settings.template, settings.tools)
    parsed = parse_documents(settings.documents, settings.layout)
    if isinstance(asked, str):
        for name, value in settings.template_settings.items():
            message = f"{name}={value!r:.40} is a setting of the chat template, which a text skips. Ask with messages."
            raise InputError(message, argument=name, value=value)
        return read_prompt(subject, parse_prompt(asked, parsed), None, None)
    used = settings.template or getattr(subject.tokenizer, "chat_template", None)
    if not used:
        message = f"The tokenizer of {subject.name} has no chat template. Pass template=..., or asked as one text."
        raise InputError(message, argument="template", value=settings.template)
    form = _tool_form(subject, asked, settings) if uses_tools(asked) else FORMS[0]
    request = parse_messages(asked, parsed, templated="documents" in str(used), form=form)
    if request.messages is not None and request.messages[-1]["role"] == "assistant":
        message = "The last message is the assistant's. Pass its content as reply=..., without the message."
        raise InputError(message, argument="asked", value=asked)
    return read_prompt(subject, request, settings.template, settings.tools, settings.template_settings)


def _tool_form(subject: Subject, messages: Any, settings: ReplySettings) -> ToolForm:
    """The form of tool calls that the chat template knows."""
    if subject.tokenizer.chat_template == SERVERS:
        return OF_SERVERS
    own = {"template": settings.template, "tools": settings.tools, "settings": settings.template_settings}
    return find_form(messages, partial(renderer, subject, **own))


def check_reply_ids(subject: Subject, prompt: Prompt, ids: Any) -> list[int]:
    """The tokens of a reply that exist in the vocabulary."""
    size = subject.model.config.vocab_size
    try:
        values = [whole_number(index, "reply") for index in (ids.tolist() if hasattr(ids, "tolist") else ids)]
        values = writing.without_start(prompt, values) if prompt.source_size else values
    except (TypeError, ValueError):
        values = []
    if not values or not all(0 <= index < size for index in values):
        raise InputError(f"reply must be a text, or token ids from 0 to {size - 1}.", argument="reply", value=ids)
    return values
