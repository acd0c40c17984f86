"""A server of bytes: each connection gets what a function of its request writes, on any port, with or without TLS."""

import json
import socket
import threading
from contextlib import contextmanager, suppress

from tests.served.hostile import scored


def read_request(connection):
    """The head and the body of a request; both blank if the client has gone."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(2**16)
        if not piece:
            return "", b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    size = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < size and (piece := connection.recv(2**16)):
        body += piece
    return head.decode(), body


def page(content, status="200 OK", **headers):
    """A reply as bytes."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def completion(body):
    """What vLLM would reply."""
    return {"choices": [{"text": " dog", "prompt_logprobs": scored(json.loads(body)["prompt"])}]}


class RawServer:
    """`requests` are the heads and bodies that came, in order."""

    def __init__(self, reply, context=None):
        self.reply, self.context, self.requests, self.stop = reply, context, [], threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def serve(self):
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.answer, args=[connection], daemon=True).start()

    def answer(self, connection):
        with suppress(OSError), connection:
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            head, body = read_request(connection)
            if head:
                self.requests.append((head, body))
                answer = self.reply(self, connection, head, body)
                connection.sendall(answer or b"")


@contextmanager
def serving(reply, context=None):
    """A server whose replies are bytes, or what a function of server, connection, head and body returns or sends."""
    server = RawServer(reply if callable(reply) else lambda *_: reply, context)
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield server
    finally:
        server.stop.set()
        server.listener.close()


def well(server, connection, head, body):
    """A reply as vLLM gives it."""
    return page(completion(body))


def stall(server, connection, head, body):
    """No reply until the test is over."""
    server.stop.wait(60)
