"""What is refused before a reply is written, and that what is not there is asked for once; the order of requests."""

import json
import socket
from itertools import pairwise
from os.path import commonprefix

import pytest

import nbsal
from nbsal.model.served import calls
from nbsal.model.served.calls import Call, Caller
from nbsal.support.errors import InputError, ModelError, ServerError
from nbsal.support.progress import Meter
from tests.cases import cases
from tests.raising import refuses_part
from tests.served.raw_server import page, serving, well

PROMPT = "One lives in Oslo. Two lives in Rouen. Three has keys. Where does One live?"
CHAT = [{"role": "user", "content": PROMPT}]
FORCING = ("prompt_logprobs", "echo", "grammar", "content")  # in the body of a request that scores


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(calls, "FIRST", 0.005)


def explain(server, asked=PROMPT, **settings):
    return nbsal.answer(nbsal.load(nbsal.Endpoint(server.url, "some-model")), asked, progress=False, **settings)


def plain(server, connection, head, body):
    """A server that writes replies, and leaves out what it does not know."""
    reply = {"text": " In Oslo", "message": {"content": "In Oslo"}, "logprobs": None}
    return page({"choices": [reply]})


@cases("asked", [PROMPT, CHAT])
def test_a_server_without_log_probabilities_is_refused_before_it_writes(asked):
    with serving(plain) as server:
        with refuses_part("logprobs") as caught:
            explain(server, asked)
        bodies = [json.loads(body) for _, body in server.requests]
        assert bodies and all(any(name in body for name in FORCING) or "inputs" in body for body in bodies)
        assert "agreement" in str(caught.value)
        assert explain(server, asked, number="agreement").number == "agreement"


NOT_FOUND = {"detail": "Not Found"}
NO_MODEL = {"error": {"message": "The model `some-model` does not exist.", "type": "NotFoundError", "code": 404}}
BAD_MODEL = {"error": {"message": "/completions: Invalid model name passed in model=some-model", "code": "400"}}
BAD_KEY = {"error": {"message": "No connected db.", "type": "no_db_connection", "code": "400"}}  # both of LiteLLM


@cases(
    "status, content",
    [("404 No", NOT_FOUND), ("404 No", NO_MODEL), ("400 No", BAD_MODEL), ("401 No", {}), ("400 No", BAD_KEY)],
)
def test_a_wrong_path_model_or_key_is_found_by_one_request(status, content):
    tokenizer = nbsal.load("demo/notes").tokenizer
    for asked, settings in ((PROMPT, {}), (CHAT, {}), (CHAT, {"tokenizer": tokenizer})):
        for reply in (None, " In Oslo"):
            with serving(page(content, status)) as server:
                subject = nbsal.load(nbsal.Endpoint(server.url, "some-model", **settings))
                with pytest.raises(ServerError) as caught:
                    nbsal.answer(subject, asked, reply, progress=False)
                assert len(server.requests) == 1 and caught.value.status == int(status[:3])
                assert server.url in str(caught.value)


def test_a_server_that_is_not_there_is_asked_once():
    with serving(well) as server:
        subject = nbsal.load(nbsal.Endpoint(server.url, "some-model", parallel=1))
        nbsal.answer(subject, PROMPT, " In Oslo", progress=False, unit="message")
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()
        before = subject.model.server.caller.sent
        with pytest.raises(ServerError):  # it may come back
            nbsal.answer(subject, PROMPT, " In Oslo", progress=False, unit="word")
        assert subject.model.server.caller.sent == before + calls.ATTEMPTS
        other = nbsal.load(nbsal.Endpoint(server.url, "some-model"))
        with pytest.raises(ServerError):
            nbsal.answer(other, PROMPT, progress=False)
        assert other.model.server.caller.sent == 1


def shared(prompts):
    """How many characters of each prompt begin the one before it."""
    return sum(len(commonprefix(pair)) for pair in pairwise(prompts))  # noqa: RUF071, of texts, not of paths


def test_prompts_that_begin_alike_follow_each_other():
    sent = []
    order = [Call(str(number), lambda number=number: sent.append(number), (number,)) for number in (3, 1, 2)]
    Caller(nbsal.Endpoint("http://127.0.0.1:9/v1", "m", parallel=1)).results(order, Meter(None))
    assert sent == [1, 2, 3]
    with serving(well) as server:
        subject = nbsal.load(nbsal.Endpoint(server.url, "m", parallel=1))
        nbsal.answer(subject, PROMPT, " In Oslo", method="contextcite", progress=False, check=False)
        prompts = [json.loads(body)["prompt"] for _, body in server.requests][2:]
        assert len(prompts) > 8 and shared(prompts) == shared(sorted(prompts))


def test_replies_that_no_grammar_can_force():
    from tests.served import model_server

    with model_server.running() as address:
        url = f"{address}/llamacpp/v1"
        for tokenizer in (None, "demo/notes"):
            tokenizer = tokenizer and nbsal.load(tokenizer).tokenizer
            subject = nbsal.load(nbsal.Endpoint(url, "notes", model_server.KEY, tokenizer=tokenizer))
            nbsal.answer(subject, PROMPT, " In Oslo.", progress=False, unit="message")
        ids = subject.tokenizer(" In Oslo.", add_special_tokens=False)["input_ids"]
        before = subject.model.server.caller.sent
        with pytest.raises(InputError):
            nbsal.answer(subject, PROMPT, [*ids, subject.tokenizer.eos_token_id], progress=False)
        assert subject.model.server.caller.sent == before


def test_numbers_under_the_grammar_are_no_log_probabilities():
    def certain(server, connection, head, body):
        content = [{"id": 7, "token": " not", "logprob": 0.0, "top_logprobs": []}]
        tokens = [{"id": 1, "piece": "\n"}, {"id": 7, "piece": " not"}]
        return page({"choices": [{"text": "", "logprobs": {"content": content}}], "tokens": tokens})

    with serving(certain) as server, pytest.raises(ModelError):
        explain(server, reply=" not")
