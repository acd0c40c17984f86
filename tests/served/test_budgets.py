"""One budget, and one question at a time: over copies, threads and processes, and for corpora of replies."""

import copy
import dataclasses
import json
import multiprocessing
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

import nbsal
from nbsal.model.served import cache as cache_file
from nbsal.model.served import calls
from nbsal.model.served.cache import CallCache
from nbsal.support.errors import InputError, NbsalError, OverBudget
from tests.cases import cases
from tests.raising import refuses
from tests.served import hostile
from tests.served.raw_server import completion, page, serving, well

PROMPT, REPLY = "One lives in Oslo. Two lives in Rouen. Three has keys. Where does One live?", " In Oslo"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(calls, "FIRST", 0.005)
    monkeypatch.setattr(calls, "GRACE", 60.0)


def explain(subject, **settings):
    return nbsal.answer(subject, PROMPT, REPLY, progress=False, **settings)


def endpoint(server, **settings):
    return nbsal.Endpoint(server.url, "m", **settings)


def bodies(server):
    return Counter(body for _, body in server.requests)


def in_threads(*functions):
    """Run functions at the same time; the errors of nbsal that they raise."""
    errors = []

    def guarded(function):
        try:
            function()
        except NbsalError as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[function]) for function in functions]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return errors


def test_copies_share_the_key_the_budget_and_the_answers(monkeypatch):
    with serving(well) as server:
        first = endpoint(server, key="sk-copied-1234", budget=12)
        others = [copy.copy(first), copy.deepcopy(first), dataclasses.replace(first, top=5)]
        for each in [first, first, *others, pickle.loads(pickle.dumps(first))]:
            subject = nbsal.load(each)
            explain(subject)
            assert subject.model.server.caller.sent == 7
        assert len(server.requests) == 7 and all("Bearer sk-copied-1234" in head for head, _ in server.requests)
        assert all(each.key.headers == first.key.headers for each in others)
        with refuses("budget", OverBudget):
            explain(nbsal.load(dataclasses.replace(first, top=4)))
        assert len(server.requests) == 7


def explained(task):
    """In a process of its own: explain a reply through an endpoint; the error, if there is one."""
    copied, unit = pickle.loads(task)
    try:
        explain(nbsal.load(copied), unit=unit)
    except NbsalError as error:
        return error
    return None


@pytest.fixture(scope="module")
def processes():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        yield pool


def test_processes_share_a_budget_and_send_each_question_once(tmp_path, processes):
    """Copies of one endpoint, and another one of the same server with the same file."""

    def slow(server, connection, head, body):
        time.sleep(0.05)
        return well(server, connection, head, body)

    with serving(slow) as server:
        first = endpoint(server, cache=tmp_path / "calls", budget=40)
        copies = [first, first, endpoint(server, cache=tmp_path / "calls", budget=40)]
        assert processes.map(explained, [pickle.dumps((each, "word")) for each in copies], 1) == [None] * 3
        sent = len(server.requests)
        assert max(bodies(server).values()) == 1 and nbsal.load(first).model.server.caller.sent == sent > 15
        with refuses("budget", OverBudget):
            explain(nbsal.load(first), method=nbsal.KernelShap(samples=64), unit="word")
        error = processes.apply(explained, [pickle.dumps((endpoint(server, budget=12), "sentence"))])
        assert error.argument == "cache" and len(server.requests) == sent, "nothing counts for all of them"
        assert processes.apply(explained, [pickle.dumps((endpoint(server, budget=None), "message"))]) is None


def test_threads_send_each_question_once():
    def slow(server, connection, head, body):
        time.sleep(0.02)
        return well(server, connection, head, body)

    with serving(slow) as server:
        first = endpoint(server, budget=15)
        assert not in_threads(*[lambda: explain(nbsal.load(first))] * 6)
        assert len(server.requests) == 7


def check_random_case(seed, tmp_path, processes):
    """Copies in threads and processes, and failures: no call beyond the budget, none answered twice."""
    rng = random.Random(seed)
    with hostile.running() as server:
        budget, cache = rng.choice([1, 5, 9, 15, 30]), rng.choice([None, tmp_path / f"{seed}.sqlite"])
        first = nbsal.Endpoint(server.url, "m", hostile.KEY, budget, cache, parallel=rng.choice([1, 3]))
        server.fail(*([rng.choice(["503", "close", "500", "cut"])] * rng.choice([0, 0, 1, 2]) for _ in range(30)))
        copies = [first, copy.deepcopy(first), dataclasses.replace(first), pickle.loads(pickle.dumps(first))]
        units = rng.choices(["sentence", "message", "word"], k=4)
        settings = zip(copies[:3], units, strict=False)  # a pickled one has no key
        tasks = [pickle.dumps((first, unit)) for unit in rng.choices(["sentence", "word"], k=3)] if cache else []
        others = processes.map_async(explained, tasks, 1)
        errors = in_threads(*(lambda e=e, u=u: explain(nbsal.load(e), unit=u) for e, u in settings))
        errors += filter(None, others.get(120))
        assert server.calls <= budget and all(isinstance(error, NbsalError) for error in errors)
        assert nbsal.load(copies[3]).model.server.caller.sent == server.calls
        assert max(server.answered.values(), default=0) <= 1


@pytest.mark.parametrize("seeds", [range(10), pytest.param(range(10, 200), marks=pytest.mark.full)])
def test_random_copies(seeds, tmp_path, processes):
    for seed in seeds:
        check_random_case(seed, tmp_path, processes)


def echo(server, connection, head, body):
    """A server that reads no token ids and knows `echo` alone, as llama-cpp-python does."""
    asked = json.loads(body)
    if "echo" not in asked or not isinstance(asked["prompt"], str):
        return page({"error": "unknown"}, "422 No")
    words = [entry and entry["7"] for entry in completion(body)["choices"][0]["prompt_logprobs"]]
    texts = [asked["prompt"].split(" ")[0], *(word["decoded_token"] for word in words[1:]), " dog"]
    values = [None, *(word["logprob"] for word in words[1:]), -0.5]
    likely = [None, *({text: value} for text, value in zip(texts[1:], values[1:], strict=True))]
    logprobs = {"tokens": texts, "token_logprobs": values, "top_logprobs": likely}
    return page({"choices": [{"text": "", "logprobs": logprobs}]})


def generate(server, connection, head, body):
    """Text Generation Inference, whose completions leave out what they do not know."""
    asked = json.loads(body)
    if "/generate" not in head:
        return page({"choices": [{"text": " In Oslo", "logprobs": None}]})
    entries = completion(json.dumps({"prompt": asked["inputs"]}))["choices"][0]["prompt_logprobs"]
    texts = [asked["inputs"].split(" ")[0], *(entry["7"]["decoded_token"] for entry in entries[1:])]
    values = [None, *(entry["7"]["logprob"] for entry in entries[1:])]
    prefill = [{"id": i, "text": text, "logprob": v} for i, (text, v) in enumerate(zip(texts, values, strict=True))]
    return page([{"generated_text": " In Oslo", "details": {"prefill": prefill}}])


@cases("reply", [well, echo, generate])
def test_a_plan_is_the_most_that_is_sent(reply):
    settings = {"unit": "sentence", "progress": False}
    with serving(reply) as server:
        for text, most in ((REPLY, 12), (None, 13)):
            server.requests.clear()
            subject = nbsal.load(endpoint(server, budget=most))
            plan = nbsal.Explainer(subject, "occlusion").plan_reply(PROMPT, text, unit="sentence")
            if text is None and reply is echo:
                continue  # it writes none
            nbsal.answer(subject, PROMPT, text, method="occlusion", **settings)
            assert plan.calls == most >= len(server.requests) >= most - 5
            assert nbsal.Explainer(subject, "occlusion").plan_reply(PROMPT, text, unit="sentence").calls == 0


def test_replies_say_what_all_of_them_need_before_any_is_asked(tmp_path):
    rows = [{"asked": PROMPT.replace("Oslo", name), "reply": REPLY} for name in "Oslo Bergen Rouen Oslo Lyon".split()]
    columns = {"asked": "asked", "reply": "reply", "shard_rows": 2, "progress": False}
    with serving(well) as server:

        def run(budget, rows=rows, **settings):
            explainer = nbsal.Explainer(nbsal.load(endpoint(server, budget=budget, **settings)), "occlusion")
            return nbsal.corpus.explain_replies(explainer, rows, tmp_path / "out", **columns)

        with refuses("budget", OverBudget) as caught:
            run(22)
        assert not server.requests and caught.value.needed == 23, (
            "four of each prompt, one of all, the tokens of the reply, and five to find out how to ask"
        )
        assert len(run(23)) == 5 and len(server.requests) == 18
        assert len(run(1)) == 5 and len(server.requests) == 18, "finished shards need nothing"
        explainer = nbsal.Explainer(nbsal.load(endpoint(server, budget=22)), "occlusion")
        with refuses("budget", OverBudget) as caught:
            explainer.replies(rows, progress=False)
        assert caught.value.needed == 23 and len(server.requests) == 18


def test_a_killed_process_blocks_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_file, "LEASE", 0.5)
    waiting = CallCache(tmp_path / "calls")
    killed = f"""
import os
from nbsal.model.served import cache
cache.LEASE = 0.5
cache.CallCache({str(tmp_path / "calls")!r}).take(["a"], "m", None)
os.kill(os.getpid(), {int(signal.SIGTERM)})
"""
    assert subprocess.run([sys.executable, "-c", killed]).returncode == -signal.SIGTERM
    end = time.monotonic() + 30
    while not waiting.take(["a"], "m", 2):
        assert time.monotonic() < end
    assert waiting.sent("m") == 2
    with pytest.raises(OverBudget):
        waiting.take(["b"], "m", 2)


def test_a_call_on_its_way_stays_so_while_its_process_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_file, "LEASE", 2.0)
    monkeypatch.setattr(cache_file, "BEAT", 0.1)
    first, second = CallCache(tmp_path / "calls"), CallCache(tmp_path / "calls")
    assert first.take(["a", "b"], "m", None) == ["a", "b"]
    time.sleep(2.5)
    assert second.on_their_way(["a", "b", "c"]) == {"a", "b"} and second.take(["a", "c"], "m", None) == ["c"]
    first.put("a", [1])
    first.release(["b"])
    assert second.take(["a", "b"], "m", None) == ["b"] and second.get(["a"]) == {"a": [1]}


def test_a_function_is_asked_once_by_threads(tmp_path):
    texts = Counter()

    def classify(batch):
        time.sleep(0.02)
        texts.update(batch)
        return [[0.1, 0.9] if "warm" in text else [0.6, 0.4] for text in batch]

    service = nbsal.Endpoint(classify, model="reviews", budget=20, cache=tmp_path / "calls")
    run = lambda: nbsal.Explainer(nbsal.load(service.classifier()), "occlusion")("A warm film.")  # noqa: E731
    assert not in_threads(*[run] * 5)
    assert set(texts.values()) == {1} and service.cache.sent(service.account) == len(texts)
    fewer = nbsal.load(nbsal.Endpoint(lambda texts: [[0.1, 0.9]], budget=20).classifier())
    with refuses("model", InputError):
        nbsal.Explainer(fewer, "occlusion")("A warm film.")
