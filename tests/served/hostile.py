"""A server that scores words by a checksum, as vLLM would, and fails in every way that is asked of it."""

import json
import re
import threading
import time
import zlib
from collections import Counter
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-hostile-77ab31"
STALL = 0.2  # seconds that an impatient client of it waits
FAULTS = (
    *("429", "429 later", "500", "502 page", "503", "400", "401", "404", "stall", "drip", "drip headers", "close"),
    *("cut", "cut chunk", "not json", "empty", "null", "deep", "page", "nan", "positive", "text", "fewer", "more"),
    *("other words", "huge", "redirect", "not http", "binary", "below", "half"),
)

TIMERS = set()  # of the requests that are on their way


def logprob(text, before):
    return -(zlib.crc32(f"{before}|{text}".encode()) % 1000) / 100


def scored(prompt):
    entries, words, before = [None], re.findall(r"\s*\S+", prompt), ""
    for word in words:
        if before:
            entries.append({"7": {"logprob": logprob(word, before), "rank": 2, "decoded_token": word}})
        before += word
    return entries


class Timer:
    """The timer of a client's request, which rings when the server stalls: on a full machine others may be late too."""

    def __init__(self, seconds, ring, arguments):
        self.connection, self.ring = arguments[0], partial(ring, *arguments)

    def start(self):
        TIMERS.add(self)

    def cancel(self):
        TIMERS.discard(self)

    def is_of(self, address):
        """Whether the client's end of the connection has that address."""
        return self.connection.line is not None and self.connection.line.getsockname() == address


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        plan, body = self.server, self.rfile.read(int(self.headers["Content-Length"]))
        with plan.lock:
            plan.calls += 1
            plan.keys[self.headers.get("Authorization", "")] += 1
            fault = plan.next_fault(body)
        if fault == "slow":
            time.sleep(4 * STALL)
        if fault in (None, "slow"):
            plan.answered[body] += 1
        content = json.loads(body)
        entries = scored(content["prompt"])
        choice = {"text": " dog", "prompt_logprobs": entries}
        wrong = {"nan": float("nan"), "positive": 3.5, "text": "likely", "below": -(10**400)}
        if fault in wrong:
            entries[-1]["7"]["logprob"] = wrong[fault]
        elif fault == "half":  # of a character
            entries[-1]["8"] = {"logprob": -0.1, "decoded_token": "\ud800"}
        elif fault == "rivals":
            entries[-1]["7"]["rank"] = 10**30
            entries[-1] |= {name: {"logprob": -0.1, "decoded_token": "Rouen"} for name in ("1", "-1", str(10**30))}
        elif fault == "long":
            choice["text"] *= 20_000
        elif fault == "fewer":
            del entries[-2:]
        elif fault == "more":
            entries.append(entries[-1])
        elif fault == "other words":
            entries[-1]["7"]["decoded_token"] = "else"
        data = json.dumps({"choices": [choice], "said": f"Bearer {KEY}"}).encode()
        try:
            self.fail(fault, data)
        except OSError:  # the client has gone
            self.close_connection = True

    def fail(self, fault, data):
        pages = {"502 page": 502, "page": 200, "not json": 200, "empty": 200, "null": 200, "deep": 200, "binary": 200}
        if fault in ("429", "429 later"):
            self.send({"error": f"slow down, {KEY}"}, 429, {"Retry-After": "0.01"} if fault == "429" else {})
        elif fault in ("500", "503", "400", "401", "404"):
            content = json.dumps({"error": {"message": f"no, Bearer {KEY}, and " + "x" * 5000}})
            self.send(content.replace("sk-", "\\u0073k-" if fault == "404" else "sk-").encode(), int(fault))
        elif fault == "redirect":
            self.send({}, 307, {"Location": f"http://localhost:{self.server.server_address[1]}/elsewhere"})
        elif fault in pages:
            raw = {
                "not json": data[:-9] + b"}",
                "empty": b"",
                "null": b"null",
                "deep": b"[" * 100_000,
                "binary": b"\xff\x00",
            }
            self.send(raw.get(fault, f"<html>{KEY} is down</html>".encode()), pages[fault])
        elif fault == "huge":
            self.head(200, {"Content-Length": str(2**40)})
            while True:
                self.wfile.write(b" " * 2**16)
        elif fault == "stall":
            self.let_wait()
            self.rfile.read(1)  # until the client has gone
        elif fault == "not http":
            self.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n" * 3)
        elif fault == "drip headers":
            self.let_wait()
            for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"y" * 100:
                self.wfile.write(bytes([byte]))
                time.sleep(STALL / 5)
        elif fault == "drip":
            self.head(200, {"Content-Length": str(len(data))})
            self.let_wait()
            for byte in data:
                self.wfile.write(bytes([byte]))
                time.sleep(STALL / 5)
        elif fault == "cut":
            self.head(200, {"Content-Length": str(len(data))})
            self.wfile.write(data[: len(data) // 2])
        elif fault == "cut chunk":
            self.head(200, {"Transfer-Encoding": "chunked"})
            self.wfile.write(b"%x\r\n%s" % (len(data), data[:20]))
        elif fault != "close":
            self.send(data, 200)
        self.close_connection = True

    def let_wait(self):
        """Let the client's time pass, unless a clock runs for it."""
        for timer in [each for each in list(TIMERS) if each.is_of(self.connection.getpeername())]:
            timer.ring()

    def send(self, content, status, headers=()):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.head(status, {"Content-Length": str(len(data)), **dict(headers)})
        self.wfile.write(data)

    def head(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    """`answered` counts what it answered well, by the body of the request."""

    daemon_threads, request_queue_size = True, 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.calls = threading.Lock(), 0
        self.answered, self.keys = Counter(), Counter()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.fail()

    def fail(self, *requests, then=()):
        """From now on: the faults of the first different requests, attempt by attempt, and those of each later one."""
        self.faults, self.faults_of_others, self.faults_left = requests, then, {}

    def next_fault(self, body):
        """The fault of this attempt at a request, which is known by its body, not by when it arrives."""
        number = len(self.faults_left)
        faults = self.faults[number] if number < len(self.faults) else self.faults_of_others
        left = self.faults_left.setdefault(body, [*faults])
        return left.pop(0) if left else None

    def handle_error(self, *args):
        pass


@contextmanager
def running():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
