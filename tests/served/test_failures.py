"""Servers that fail, and runs that stop: no call too many, none sent twice, nothing lost, no key anywhere."""

import pickle
import random
import sqlite3
import threading
import time
import traceback
from types import SimpleNamespace

import numpy as np
import pytest

import nbsal
from nbsal.ablation.served import other_tokens
from nbsal.model.served import calls, forms, http
from nbsal.model.served.cache import CallCache
from nbsal.model.served.forms import Likely
from nbsal.model.served.server import Score, Server
from nbsal.support.errors import Cancelled, InputError, ModelError, NbsalError, OverBudget, ServerError
from tests.cases import cases
from tests.raising import refuses
from tests.served import hostile
from tests.served.hostile import FAULTS, KEY, STALL, logprob

PROMPT, REPLY = "One lives in Oslo. Two lives in Rouen. Three has keys. Where does One live?", " In Oslo"
WORDS = (" In", " Oslo")
CALLS = 7  # the whole, one for each sentence, without all, and one that finds out how to ask
PLANNED = CALLS + 5  # which others than vLLM need


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(calls, "FIRST", 0.005)
    monkeypatch.setattr(calls, "GRACE", 60.0)  # a full machine may be late; nothing waits longer than it must
    monkeypatch.setattr(forms, "ROOM", 2**17)
    monkeypatch.setattr(http, "threading", SimpleNamespace(Timer=hostile.Timer))


@pytest.fixture
def server():
    with hostile.running() as running:
        yield running


def load(server, **settings):
    return nbsal.load(nbsal.Endpoint(server.url, "m", KEY, **settings))


def explain(subject, **settings):
    return nbsal.answer(subject, PROMPT, REPLY, progress=False, **settings)


def told(error):
    """All that an error shows, its causes and the variables of their frames included."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(shown.format()) + repr(error) + repr(vars(error)) + str(pickle.dumps(error))


def values_of(prompt):
    return [logprob(" In", prompt), logprob(" Oslo", f"{prompt} In")]


def test_scores_are_those_that_the_server_gives(server):
    result = explain(load(server, budget=PLANNED))
    assert server.calls == CALLS and result.statistics.logprob == pytest.approx(values_of(PROMPT))
    without = values_of("One lives in Oslo. Two lives in Rouen. Three has keys.")
    drops = np.subtract(values_of(PROMPT), without)
    assert result.matrix("word", "sentence").iloc[:, 3].to_numpy() == pytest.approx(drops)
    assert result.provenance["server"] == server.url and result.provenance["model"] == "m"
    assert set(server.keys) == {f"Bearer {KEY}"}


ALWAYS = 100
AGAIN = (
    "429",
    "429 later",
    "500",
    "502 page",
    "503",
    "stall",
    "drip",
    "drip headers",
    "close",
    "cut",
    "cut chunk",
    "not http",
)


@cases("fault", FAULTS)
def test_each_way_to_fail_is_a_sentence_or_is_tried_again(fault):
    with hostile.running() as server:
        subject = load(server, budget=40, parallel=1)
        explain(subject, check=False, unit="message")  # it knows how to ask
        server.fail([fault])
        before = server.calls
        if fault in AGAIN:
            explain(subject)
            server.fail(then=[fault] * ALWAYS)
            before = server.calls
            subject = load(server, budget=40, parallel=1)
            with pytest.raises((ServerError, ModelError)) as caught:
                explain(subject)
            ways = 3 if fault == "500" else 1  # some servers answer 500 to a form that they do not know
            assert server.calls == before + ways * calls.ATTEMPTS
        else:
            with pytest.raises(ServerError) as caught:
                explain(subject)
            assert server.calls == before + 1 and caught.value.partial.text == REPLY
        assert KEY not in told(caught.value)
        text = str(caught.value)
        assert server.url in text or ("server" in text and len(text) < 700 and "\n" not in text)


@cases("fault", ["stall", "drip", "drip headers"])
def test_a_server_that_is_late_is_given_up(fault, monkeypatch):
    monkeypatch.setattr(http, "threading", threading)
    with hostile.running() as server:
        subject = load(server, timeout=STALL)
        server.fail(then=[fault] * ALWAYS)
        with pytest.raises(ServerError):
            explain(subject)
    assert subject.model.server.caller.sent == calls.ATTEMPTS >= server.calls


def check_random_case(seed, tmp_path):
    """Faults at random, then none: within the budget, and what was answered is asked once."""
    rng = random.Random(seed)
    with hostile.running() as server:
        method, unit = (
            rng.choice(["occlusion", "kernel-shap", "contextcite"]),
            rng.choice(["sentence", "message", "word"]),
        )
        unit = "sentence" if method == "contextcite" else unit
        plan = nbsal.Explainer(load(server), method).plan_reply(PROMPT, REPLY, unit=unit)
        budget, cache = rng.choice([rng.randint(1, 25), plan.calls + rng.randint(0, 3)]), tmp_path / f"{seed}.sqlite"
        settings = {"parallel": rng.choice([1, 2, 4]), "cache": cache}
        server.fail(*(rng.choices(FAULTS, k=rng.choice([0, 0, 1, 2])) for _ in range(rng.randint(0, 12))))
        subject = load(server, budget=budget, **settings)
        for _ in range(2):
            try:
                explain(subject, method=method, unit=unit)
            except NbsalError as error:
                assert KEY not in told(error)
                assert isinstance(error, ServerError | OverBudget | ModelError)
                partial = error.partial
                assert partial is None or partial == REPLY or partial.text == REPLY
        assert server.calls <= budget and subject.model.server.caller.sent == server.calls
        server.fail()
        resumed = load(server, budget=200, **settings)
        result = explain(resumed, method=method, unit=unit)
        assert server.calls == resumed.model.server.caller.sent, "those of all that use the file"
        scored = [count for body, count in server.answered.items() if b"prompt_logprobs" in body]
        assert max(scored) == 1, "nothing that was answered is asked again"
        assert np.isfinite(result.scores).all()
        assert KEY.encode() not in cache.read_bytes()


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 200), marks=pytest.mark.full)])
def test_random_failures(seeds, tmp_path):
    for seed in seeds:
        check_random_case(seed, tmp_path)


def test_a_budget_is_checked_before_anything_is_sent(server):
    subject = load(server, budget=PLANNED - 1)
    plan = nbsal.Explainer(subject, "occlusion").plan_reply(PROMPT, REPLY)
    with refuses("budget", OverBudget) as caught:
        explain(subject)
    assert server.calls == 0 and caught.value.needed == plan.calls == PLANNED and caught.value.left == PLANNED - 1
    cache = CallCache(None)
    explain(load(server, cache=cache), check=False, unit="message")
    with refuses("budget", OverBudget) as caught:
        explain(load(server, budget=CALLS - 1, cache=cache))
    assert server.calls == 3 and caught.value.left == CALLS - 4


def test_attempts_that_fail_use_up_the_budget(server):
    server.fail([], [], ["503"] * 3, ["503"] * 3, ["503"] * 2)
    with refuses("budget", OverBudget) as caught:
        explain(load(server, budget=PLANNED, parallel=1))
    assert server.calls == PLANNED and caught.value.partial.text == REPLY
    assert caught.value.needed == 2, "of four subsets, two took four attempts, and the third two"


def test_a_reply_whose_likelihood_is_not_known_is_kept(server):
    server.fail([], ["401"])
    with pytest.raises(ServerError) as caught:
        explain(load(server))
    assert caught.value.partial == REPLY and caught.value.status == 401


def test_a_cancelled_run_goes_on_where_it_was(server, tmp_path):
    settings = {"cache": tmp_path / "calls.sqlite"}
    cancel, subject = threading.Event(), load(server, parallel=2, **settings)
    server.fail(*[[]] * 10, then=["slow"])  # it is cancelled while one of these is on its way

    def stop(done, total):
        cancel.set()

    with pytest.raises(Cancelled) as caught:
        nbsal.answer(subject, PROMPT, REPLY, unit="word", progress=stop, cancel=cancel)
    assert caught.value.partial.text == REPLY and 0 < server.calls < 15

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nbsal.answer(subject, PROMPT, REPLY, unit="word", progress=interrupt)
    server.fail()
    result = explain(load(server, **settings), unit="word")
    assert server.calls == len(server.answered) and np.isfinite(result.scores).all(), "nothing is asked twice"


def test_a_server_that_is_busy_for_long_says_when_to_come_back(server, monkeypatch):
    monkeypatch.setattr(calls, "LONGEST", 0.001)
    server.fail(["429"])
    with pytest.raises(ServerError) as caught:
        explain(load(server))
    assert caught.value.status == 429 and server.calls == 1


def test_keys_stand_nowhere(server, tmp_path, monkeypatch):
    monkeypatch.setenv("NBSAL_API_KEY", KEY)
    address = server.url.replace("//", f"//ann:{KEY}@")
    for endpoint in (
        nbsal.Endpoint(server.url, "m"),
        nbsal.Endpoint(address, "m"),
        nbsal.Endpoint(server.url, "m", KEY),
    ):
        subject = nbsal.load(endpoint)
        result = explain(subject)
        result.save(tmp_path / "answer.json")
        texts = [
            repr(endpoint),
            str(vars(endpoint)),
            repr(subject),
            repr(result),
            repr(result.provenance),
            result.to_html(),
        ]
        texts += [str(pickle.dumps(each)) for each in (endpoint, subject)] + [
            str((tmp_path / "answer.json").read_bytes())
        ]
        assert not [text for text in texts if KEY in text or "ann:" in text]
        assert result.provenance["server"] == server.url
    assert len(server.keys) == 2 and not any(KEY in key and "Basic" in key for key in server.keys)
    monkeypatch.setenv("NBSAL_API_KEY", "")
    assert nbsal.load(pickle.loads(pickle.dumps(subject.model.server.endpoint))).model.server.endpoint.key.headers == {}


@cases("key", ["", "two words", "line\nbreak", "schlüssel", 7, b"bytes"])
def test_keys_that_no_header_holds_are_refused_unseen(key):
    with refuses("key") as caught:
        nbsal.Endpoint("http://127.0.0.1:9/v1", "m", key)
    assert len(str(key)) < 3 or str(key) not in str(caught.value) + repr(vars(caught.value))


@cases(
    "url",
    [
        *("", "127.0.0.1:8000", "ftp://a/v1", "http://", "http://a:x/v1", "http://u:pw-secret@a/v1?key=1"),
        *("http://a/#b", "http://a b/v1", "http://a/v1 b", "http://a/v1\tb", "http://a/\u00e9", "http://a\nb/v1"),
    ],
)
def test_addresses_that_are_none_are_refused_unseen(url):
    with refuses("url") as caught:
        nbsal.Endpoint(url, "m")
    assert "pw-secret" not in str(caught.value) + repr(vars(caught.value))


def test_a_request_goes_through_the_proxy_of_the_environment(server, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url.replace("//", "//name:word@").removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "")
    result = explain(nbsal.load(nbsal.Endpoint("http://model.invalid/v1", "m", KEY, insecure=True)))
    assert result.statistics.logprob == pytest.approx(values_of(PROMPT))
    for wrong in ("http://name:word@proxy:port", "http://no proxy"):
        monkeypatch.setenv("http_proxy", wrong)
        with pytest.raises(ServerError) as caught:
            explain(nbsal.load(nbsal.Endpoint("http://model.invalid/v1", "m", KEY, insecure=True)))
        assert "word" not in str(caught.value)


def test_what_a_server_names_beside_the_reply_is_none_of_our_words(server):
    server.fail(then=["rivals"])
    statistics = explain(load(server)).statistics
    assert [name.split(" #")[0] for name, _ in statistics.rivals[-1]] == ["Rouen"] * 3
    assert statistics.rank[-1] <= 4
    tokenizer = nbsal.load("demo/notes").tokenizer
    top = [Likely(" Rouen", index, -0.1) for index in (3, -1, 10**30)]
    others = other_tokens(Server(nbsal.Endpoint(server.url, "m"), tokenizer), Score(-1.0, 2, tuple(top)), 5)
    assert [index for index, _ in others] == [3] + 2 * tokenizer(" Rouen", add_special_tokens=False)["input_ids"]


def test_a_reply_longer_than_what_was_asked_for_is_refused(server):
    server.fail([], ["long"])
    with pytest.raises(ServerError):
        nbsal.answer(load(server), PROMPT, progress=False)
    assert server.calls == 2


EDITED = [
    "{",
    "null",
    '"text"',
    "7",
    "[[1, 2]]",
    '[["a", 0, []]] * 2',
    "[[-0.5, 0, []]]",
    "[[NaN, 0, []], [NaN, 0, []]]",
]
EDITED += [f"[[-0.5, {10**30}, []], [-0.5, 0, []]]", "[[-0.5, 0, [[1]]], [-0.5, 0, []]]"]


@cases("content", EDITED)
def test_a_cache_that_others_edited_is_refused(server, tmp_path, content):
    path = tmp_path / "calls.sqlite"
    explain(load(server, cache=path))
    database = sqlite3.connect(path)
    with database:
        database.execute("UPDATE calls SET result = ? WHERE result LIKE '[%'", [content])
    database.close()
    with refuses("cache"):
        explain(load(server, cache=path))


def test_a_cache_runs_no_queries_of_others(tmp_path):
    path = tmp_path / "calls.sqlite"
    endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 1000000)"
    database = sqlite3.connect(path)
    database.execute(f"CREATE VIEW CALLS AS {endless} SELECT x AS key, x AS result FROM r")
    database.close()
    start = time.thread_time()  # the query would run in this thread
    with refuses("cache"):
        CallCache(path).get([])
    assert time.thread_time() - start < 0.5


def test_a_cache_is_shared(tmp_path):
    path, keys = tmp_path / "calls.sqlite", [str(number) for number in range(700)]
    caches = [CallCache(path) for _ in range(4)]

    def fill(cache):
        for key in keys:
            cache.put(key, [key])

    threads = [threading.Thread(target=fill, args=[cache]) for cache in caches]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert CallCache(path).get(keys) == {key: [key] for key in keys}
    with refuses("cache"):
        CallCache(tmp_path / "none" / "calls.sqlite").get([])
    (tmp_path / "text").write_text("no database" * 100)
    with refuses("cache", InputError):
        CallCache(tmp_path / "text").get([])
