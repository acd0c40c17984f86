"""Replies of a model behind a server: scored and written by calls, which are counted before any is sent."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nbsal.ablation.served import other_tokens
from nbsal.ablation.texts import TEXT
from nbsal.explain.prompt.reading import Prompt, PromptWithReply, TokenStatistics
from nbsal.explain.prompt.sources import Request, like
from nbsal.model.served.queries import Query
from nbsal.model.served.served_model import Served
from nbsal.model.served.server import Server
from nbsal.model.subject import Subject
from nbsal.model.target import AGREEMENT, DIVERGENCE
from nbsal.model.text.tokenize import token_name
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter

SETTINGS = ("do_sample", "max_new_tokens", "temperature", "top_p", "stop_strings")  # of `generate`, that servers know
RIVALS = 5  # other tokens that are listed for each token of a reply


def server_of(subject: Subject) -> Server | None:
    """The server of a subject that is behind one."""
    return subject.model.server if isinstance(subject.model, Served) else None


def way(server: Server, way: str | int) -> str | int:
    """How units are hidden: a server reads whole prompts, and without a tokenizer only texts."""
    if server.by_words and way not in ("remove", TEXT):
        message = f"way={way!r} replaces tokens. Pass tokenizer=... to nbsal.Endpoint, or way='text'."
        raise InputError(message, argument="way", value=way)
    return TEXT if way == "remove" else way


def check_number(subject: Subject, number: str) -> None:
    """Refuse a number that a server does not give, and one that only a server gives."""
    server = server_of(subject)
    if server is None and number == AGREEMENT:
        message = f"number={number!r} is for models behind a server. This one has log-probabilities: use 'logprob'."
        raise InputError(message, argument="number", value=number)
    if server is None:
        return
    if number == "logit" or (number == DIVERGENCE and server.by_words):
        reason = "a server shows no logits" if number == "logit" else "words are compared by tokens of the model"
        choice = "" if number == "logit" else " Pass tokenizer=... to nbsal.Endpoint."
        message = f"number={number!r}, but {reason}. Use 'logprob' or 'logit-prob'.{choice}"
        raise InputError(message, argument="number", value=number)


def check_rendering(server: Server, template: str | None, tools: Any) -> None:
    """Refuse what a chat template is needed for, where the server has it and no tokenizer is at hand."""
    for name, value in (("template", template), ("tools", tools)):
        if server.by_words and value is not None:
            message = f"{name} is rendered with the model's tokenizer. Pass tokenizer=... to nbsal.Endpoint."
            raise InputError(message, argument=name, value=value)


def messages_of(request: Request) -> tuple[Mapping[str, Any], ...] | None:
    """The messages of a chat as a server gets them, with documents in their place; None for a prompt."""
    if request.messages is None:
        return None
    pairs = zip(request.messages, request.texts, strict=False)
    return tuple({**message, "content": _content(message.get("content"), text)} for message, text in pairs)


def _content(content: Any, text: str) -> Any:
    """A text in the form of a content, which a message that makes calls may lack."""
    return None if content is None and not text else like(content, text)


def query_of(server: Server, request: Request, ids: Sequence[int], reply_ids: Sequence[int]) -> Query:
    """What is asked about a prompt: its tokens, or its messages where the server renders them."""
    return Query(tuple(ids), tuple(reply_ids), messages_of(request) if server.by_words else None)


def token_statistics(server: Server, reading: PromptWithReply, drawn: Any) -> TokenStatistics:
    """What the server says of each token of a reply; a rank of 0 and an entropy of NaN are not known."""
    (scores,) = server.scores([whole(server, reading)], Meter(None))
    return TokenStatistics(
        logprob=np.array([score.logprob for score in scores]),
        rank=np.array([score.rank for score in scores], dtype=np.int64),
        entropy=np.full(len(scores), np.nan),
        rivals=tuple(
            tuple(
                (token_name(server.tokenizer, index), float(np.exp(likely.logprob)))
                for index, likely in other_tokens(server, score, token)[:RIVALS]
            )
            for score, token in zip(scores, reading.reply_ids, strict=True)
        ),
        drawn=drawn,
    )


def unknown_statistics(reading: PromptWithReply) -> TokenStatistics:
    """The statistics of a reply whose likelihood the server does not tell."""
    unknown, size = np.full(len(reading.reply_ids), np.nan), len(reading.reply_ids)
    return TokenStatistics(unknown, np.zeros(size, dtype=np.int64), unknown, ((),) * size)


def whole(server: Server, reading: PromptWithReply) -> Query:
    """What is asked about a prompt with nothing hidden."""
    assert reading.prompt.origin is not None, "prompts from files have no model"
    return query_of(server, reading.prompt.origin[0], reading.prompt.ids, reading.reply_ids)


def check_ids(server: Server | None, ids: Any) -> Any:
    """The token ids of a reply; refused without the tokenizer that they are of."""
    if ids is not None and server is not None and server.by_words:
        message = "reply has token ids, and there is no tokenizer. Pass a text, or tokenizer=... to nbsal.Endpoint."
        raise InputError(message, argument="reply", value=ids)
    return ids


def written(server: Server, prompt: Prompt, generate: Mapping[str, Any], seed: int | None) -> tuple[str | None, str]:
    """The reply that the model behind a server has written before, if it has, and what tells it from others."""
    assert prompt.origin is not None, "prompts from files have no model"
    query = query_of(server, prompt.origin[0], prompt.ids, ())
    return server.written(query, completion_settings(generate, seed))


def write(
    server: Server, prompt: Prompt, generate: Mapping[str, Any], seed: int | None, meter: Meter, number: str | None
) -> str:
    """The reply of the model behind a server, with settings of `generate`, that a number shall explain."""
    assert prompt.origin is not None, "prompts from files have no model"
    query = query_of(server, prompt.origin[0], prompt.ids, ())
    if number != AGREEMENT and not server.is_function:
        server.form(query, meter)  # now, since it says how to ask for the reply, and whether it can be scored
    (text,) = server.write([query], completion_settings(generate, seed), meter)
    if not text.strip():
        message = "The model wrote nothing. Pass a reply, or other settings of generate."
        raise InputError(message, argument="reply", value=None)
    return text


def completion_settings(generate: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """The settings of `generate` as servers name them."""
    for name, value in generate.items():
        if name not in SETTINGS:
            message = f"{name}={value!r:.40} is no setting of a server. It has {', '.join(SETTINGS)}."
            raise InputError(message, argument=name, value=value)
    draws = bool(generate.get("do_sample"))
    temperature = (generate.get("temperature") or 1.0) if draws else 0
    top_p = generate.get("top_p") if draws else None
    body = {"max_tokens": generate["max_new_tokens"], "temperature": temperature}
    others = {"top_p": top_p, "seed": seed, "stop": generate.get("stop_strings")}
    return body | {name: value for name, value in others.items() if value is not None}
