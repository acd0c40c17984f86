"""Requests against a server of bytes: time, size and credentials, whatever it or a proxy writes."""

import base64
import dataclasses
import json
import os
import sqlite3
import ssl
import stat
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from types import SimpleNamespace

import pytest

import nbsal
from nbsal.model.served import calls, http
from nbsal.model.served.cache import TABLES, CallCache
from nbsal.support.errors import Cancelled, InputError, ModelError, ServerError
from tests.cases import cases
from tests.raising import refuses
from tests.served.raw_server import completion, page, serving, stall, well

PROMPT, REPLY = "One lives in Oslo. Two lives in Rouen. Where does One live?", " In Oslo"
KEY, LOGIN = "sk-wire-4711-secret", "pxuser:pxsecretword"
CODED = base64.b64encode(LOGIN.encode()).decode()
SECRETS = (KEY, "pxsecretword", CODED, base64.b64encode(KEY.encode()).decode())


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(calls, "FIRST", 0.005)


def explain(endpoint, **settings):
    return nbsal.answer(nbsal.load(endpoint), PROMPT, REPLY, **{"progress": False} | settings)


def failure(endpoint):
    """The error of an answer, and all that it shows."""
    with pytest.raises((ServerError, ModelError)) as caught:
        explain(endpoint)
    return caught.value, shown(caught.value)


def shown(error):
    lines = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in lines.stack if f"{os.sep}nbsal{os.sep}" in frame.filename]
    return str(error) + repr(vars(error)) + "".join(str(frame.locals) for frame in frames)


INTERRUPTED = """
import os, signal, sys, threading, time
import nbsal
subject = nbsal.load(nbsal.Endpoint(sys.argv[1], "m", parallel=64, timeout=600, budget=None))
prompt = " ".join(f"Number {i} lives in Oslo." for i in range(100))
start = []
def interrupt():
    while threading.active_count() < 66:
        time.sleep(0.01)
    start.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    nbsal.answer(subject, prompt, " In Oslo", progress=False)
except KeyboardInterrupt:
    print(time.monotonic() - start[0])
"""


def test_an_interrupt_returns_however_many_requests_are_stalled():
    asked = []

    def later(server, connection, head, body):
        asked.append(body)
        return well(server, connection, head, body) if len(asked) <= 2 else stall(server, connection, head, body)

    with serving(later) as server:
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", INTERRUPTED, server.url], capture_output=True, text=True
        )
        assert float(run.stdout) < 4 * calls.GRACE, run.stderr  # 28 seconds if each thread had its own
        cancel = threading.Event()
        threading.Timer(0.3, cancel.set).start()
        asked.clear()
        start = time.monotonic()
        with pytest.raises(Cancelled):
            explain(nbsal.Endpoint(server.url, "m", parallel=64, timeout=600), unit="word", cancel=cancel)
        assert time.monotonic() - start < 8


def drip(server, connection, head, body):
    """One byte after the other, without end."""
    with suppress(OSError):
        while not server.stop.wait(0.05):
            connection.sendall(b"H" if head.startswith("POST") else b"H" * 1)


def test_the_time_of_a_request_has_the_proxy_in_it(monkeypatch):
    monkeypatch.setattr(calls, "ATTEMPTS", 1)
    with serving(drip) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        start = time.monotonic()
        failure(nbsal.Endpoint("https://model.invalid/v1", "m", timeout=0.3))
        assert time.monotonic() - start < 10 and len(proxy.requests) == 1
        assert proxy.requests[0][0].startswith("CONNECT model.invalid:443")


CUT = [
    *("HTTP/1.1 20", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\nContent-Ty", "HTTP/1.1 200 OK\r\nContent-Length: 5"),
    *("HTTP/1.1 200 OK\r\nServer: x\r\n", "HTT", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"),
]


@cases("beginning", CUT)
def test_a_reply_that_breaks_off_is_asked_for_again(beginning):
    def once(server, connection, head, body):
        return beginning.encode() if len(server.requests) == 1 else well(server, connection, head, body)

    with serving(once) as server:
        explain(nbsal.Endpoint(server.url, "m"))
        assert len(server.requests) == 7
    with serving(beginning.encode()) as server:
        failure(nbsal.Endpoint(server.url, "m"))
        assert len(server.requests) == calls.ATTEMPTS


def test_nothing_that_stays_wrong_is_tried_again(tmp_path, monkeypatch):
    for place in ("http://[::1", "http://[hidden]/", f"http://{KEY}.example", f"//u:{KEY}@[", ""):
        with serving(page({}, "302 Found", Location=place)) as server:
            error, text = failure(nbsal.Endpoint(server.url, "m", KEY))
            assert error.status == 302 and len(server.requests) == 1 and KEY not in text
    for status, count in (("403 No", 1), ("407 Login", 1), ("503 Busy", calls.ATTEMPTS)):
        with serving(f"HTTP/1.1 {status}\r\n\r\n".encode()) as proxy:
            monkeypatch.setenv("https_proxy", f"http://{LOGIN}@127.0.0.1:{proxy.port}")
            monkeypatch.setenv("no_proxy", "")
            _, text = failure(nbsal.Endpoint("https://model.invalid/v1", "m", KEY))
            assert len(proxy.requests) == count and not any(secret in text for secret in SECRETS)
            assert f"Proxy-Authorization: Basic {CODED}" in proxy.requests[0][0]
    for host in ("a..b", "x" * 64 + ".org", "ex\u00e4mple..org"):
        with refuses("url"):
            nbsal.Endpoint(f"http://{host}/v1", "m")


def test_a_certificate_that_nobody_signed_is_tried_once(tmp_path):
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout"]
    command += [str(tmp_path / "key"), "-out", str(tmp_path / "cert"), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with serving(well, context) as server:
        endpoint = nbsal.Endpoint(server.url.replace("http", "https"), "m", KEY)
        failure(endpoint)
        assert nbsal.load(endpoint).model.server.caller.sent == 1 and not server.requests


def echoes(status, forms=lambda head: head):
    """A server whose page repeats the request."""
    return lambda server, connection, head, body: page({"error": forms(head)}, status)


@cases("status", ["407 Login", "400 No", "404 No", "200 OK"])
def test_credentials_that_were_sent_stand_in_no_error(status, monkeypatch):
    monkeypatch.setenv("no_proxy", "")

    def forms(head):
        return f"{base64.b64encode(KEY.encode()).decode()} {head.partition('Proxy-Auth')[2]} {KEY} pxsecretword"

    with serving(echoes(status, forms)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://{LOGIN}@127.0.0.1:{proxy.port}")
        _, text = failure(nbsal.Endpoint("http://model.invalid/v1", "m", KEY, insecure=True))
        head = proxy.requests[0][0]
        assert CODED in head and f"Bearer {KEY}" in head and not any(secret in text for secret in SECRETS)


@cases(
    "url, sent",
    [
        ("https://api.openai.com/v1", "openai"), ("http://127.0.0.1:9/v1", "openai"), ("http://[::1]:9/v1", "openai"),
        ("http://localhost:9/v1", "openai"), ("https://model.invalid/v1", None), ("http://10.0.0.9/v1", None),
        ("https://api.openai.com.evil.invalid/v1", None), ("https://127.0.0.1.evil.invalid/v1", None),
    ],
)  # fmt: skip
def test_a_key_of_openai_goes_to_openai_or_stays_here(url, sent, monkeypatch):
    monkeypatch.setenv("NBSAL_API_KEY", "")
    monkeypatch.setenv("OPENAI_API_KEY", "openai")
    endpoint = nbsal.Endpoint(url, "m")
    assert endpoint.key.headers == ({"Authorization": f"Bearer {sent}"} if sent else {})
    for other in ("https://model.invalid/v1", "https://api.openai.com/v1"):  # a copy for another server
        headers = dataclasses.replace(endpoint, url=other).key.headers
        assert bool(headers) == (other == "https://api.openai.com/v1")
    monkeypatch.setenv("NBSAL_API_KEY", "ours")
    https = url.replace("http:", "https:")
    assert nbsal.Endpoint(https, "m").key.headers == {"Authorization": "Bearer ours"}


def test_a_key_goes_to_other_machines_with_encryption_only(monkeypatch):
    monkeypatch.setenv("NBSAL_API_KEY", "")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    for url, key in (("http://10.0.0.9/v1", KEY), (f"http://{LOGIN}@model.invalid/v1", None)):
        with refuses("insecure") as caught:
            nbsal.Endpoint(url, "m", key)
        assert "insecure=True" in str(caught.value) and not any(secret in shown(caught.value) for secret in SECRETS)
        assert nbsal.Endpoint(url, "m", key, insecure=True).key.headers
    assert not nbsal.Endpoint("http://10.0.0.9/v1", "m").key.headers
    monkeypatch.setenv("NBSAL_API_KEY", KEY)
    with refuses("insecure"):
        nbsal.Endpoint("http://10.0.0.9/v1", "m")


REFUSED = [
    {"budget": -1}, {"budget": "x"}, {"url": "http://a b/"}, {"url": f"http://{LOGIN}@h:x/"}, {"model": ""}, {"top": 0},
    {"url": f"https://{LOGIN}@model.invalid/v1"}, {"timeout": 0}, {"cache": 7}, {"parallel": 3000}, {"insecure": "x"},
    {"key": f"{KEY} {KEY}"}, {"key": KEY.encode()}, {"url": 7}, {"url": f"http://h/v1?key={KEY}"}, {"url": f"ftp://{LOGIN}@h"},
]  # fmt: skip


@cases("changes", REFUSED)
def test_a_refused_endpoint_has_no_key_in_its_frames(changes):
    settings = {"url": "https://model.invalid/v1", "model": "m", "key": KEY} | changes
    with pytest.raises(InputError) as caught:
        nbsal.Endpoint(**settings)
    assert not any(secret in shown(caught.value) for secret in SECRETS)
    frame = caught.value.__traceback__.tb_next.tb_frame
    assert "Endpoint(" in repr(frame.f_locals["self"]) and KEY not in repr(frame.f_locals)


def test_unknown_settings_show_no_key_either():
    with pytest.raises(TypeError) as caught:
        nbsal.Endpoint("https://model.invalid/v1", "m", api_key=KEY)
    assert KEY not in shown(caught.value)


def test_a_reply_is_as_large_as_what_was_asked_for_can_make_it():
    lists = b"[" + b"[]," * 2**20 + b"[]]"
    with serving(page(lists)) as server:
        error, _ = failure(nbsal.Endpoint(server.url, "m"))
        assert error.status is None and len(server.requests) == 1
    words = [f"w{i}" for i in range(2000)]
    large = []

    def wide(server, connection, head, body):
        reply = completion(body)
        for entry in reply["choices"][0]["prompt_logprobs"][1:]:
            entry |= {
                str(10 + i): {"logprob": -9.123456789, "rank": 12345 + i, "decoded_token": " some"} for i in range(5)
            }
        large.append(page(reply))
        return large[-1]

    with serving(wide) as server:
        endpoint = nbsal.Endpoint(server.url, "m")
        nbsal.answer(nbsal.load(endpoint), " ".join(words), REPLY, unit="sentence", progress=False)
        assert max(map(len, large)) > 2**19


def test_replies_are_parsed_one_at_a_time(monkeypatch):
    at_once, most = [], []

    def slow(text):
        at_once.append(text)
        most.append(len(at_once))
        time.sleep(0.01)
        at_once.remove(text)
        return json.loads(text)

    monkeypatch.setattr(http, "json", SimpleNamespace(loads=slow, dumps=json.dumps))
    with serving(well) as server:
        explain(nbsal.Endpoint(server.url, "m", parallel=8))
    assert max(most) == 1


def test_a_new_cache_is_for_its_owner_alone(tmp_path):
    CallCache(tmp_path / "calls").put("a", 1)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600} and "calls" in modes


STRANGERS = [
    "CREATE TABLE calls (key TEXT PRIMARY KEY, result TEXT NOT NULL CHECK (abs(1)))",
    "CREATE TABLE places (a)",
]
STRANGERS += [f"{TABLES[0]}; CREATE TRIGGER t AFTER INSERT ON calls BEGIN SELECT 1; END"]


@cases("script", STRANGERS)
def test_a_database_of_another_program_is_refused_unharmed(script, tmp_path):
    path = tmp_path / "places.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript(script)
    database.close()
    before = path.read_bytes()
    with refuses("cache"):
        nbsal.load(nbsal.Endpoint("http://127.0.0.1:9/v1", "m", cache=path))
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["places.sqlite"]


READ = """
import os, sys, warnings
from nbsal.model.served.cache import CallCache
if os.getuid() == 0:  # who may write everywhere
    os.seteuid(65534)
cache = CallCache(sys.argv[1])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(cache.get(["a"]), cache.take(["b"], "m", 5), len(caught))
    cache.put("b", 2)
    print(cache.get(["b"]))
"""


def test_a_cache_that_cannot_be_written_is_read(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    cache = CallCache(folder / "calls")
    cache.put("a", [1])
    cache._connection.close()
    (folder / "calls").chmod(0o444)
    folder.chmod(0o555)
    for parent in (tmp_path, *(each for each in tmp_path.parents if "pytest" in str(each))):
        parent.chmod(0o755)
    run = subprocess.run([sys.executable, "-c", READ, str(folder / "calls")], capture_output=True, text=True)
    assert run.stdout == "{'a': [1]} ['b'] 1\n{'b': 2}\n", run.stderr
    folder.chmod(0o755)


def test_token_ids_need_a_tokenizer():
    with serving(well) as server:
        subject = nbsal.load(nbsal.Endpoint(server.url, "m"))
        for ids in ([1000000], [1, 2], [10**30]):
            for call in (
                lambda ids=ids: nbsal.answer(subject, PROMPT, ids, progress=False),
                lambda ids=ids: nbsal.Explainer(subject, "occlusion").plan_reply(PROMPT, ids),
                lambda ids=ids: nbsal.Explainer(subject, "occlusion").replies([{"asked": PROMPT, "reply": ids}]),
            ):
                with refuses("reply"):
                    call()
        assert not server.requests
