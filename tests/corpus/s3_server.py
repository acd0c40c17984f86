"""A local S3 server whose answers can be made to fail, for tests of runs that write to an object store."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

BUCKET = "corpora"


@dataclass
class Fault:
    """What happens to requests: `kind` is a status, "reset", or "lost" (done, but the answer is lost)."""

    kind: Any
    method: str = ""
    path: str = ""
    times: int = 1
    used: int = 0

    def hits(self, method: str, path: str) -> bool:
        """Whether it befalls this request; counts it."""
        hit = self.used < self.times and method.startswith(self.method) and self.path in path
        self.used += hit
        return hit


@dataclass
class Store:
    """The server's application: moto, one request at a time, so that a conditional write is atomic as on S3."""

    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    conditional: bool | None = True  # whether it honours If-None-Match; None refuses it as not implemented

    def __post_init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with self._turn:
            fault = next((fault.kind for fault in self.faults if fault.hits(method, path)), None)
        if fault == "reset":
            raise ConnectionResetError
        if self.conditional is None and "HTTP_IF_NONE_MATCH" in environ:
            fault = 501
        if fault not in (None, "lost"):
            return self._fail(fault, start_response)
        if not self.conditional:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        with self._turn:
            status: list[int] = []

            def start(line: str, *rest: Any) -> Any:
                status.append(int(line.split()[0]))
                return start_response(line, *rest)

            body = list(self._moto(environ, start))
            self.requests.append((method, path, status[0]))
        if fault == "lost":
            raise ConnectionResetError
        return body

    def _fail(self, status: int, start_response: Any) -> list[bytes]:
        codes = {500: "InternalError", 503: "SlowDown", 409: "ConditionalRequestConflict", 412: "PreconditionFailed"}
        code = codes.get(status, "NotImplemented")
        start_response(f"{status} {code}", [("Content-Type", "application/xml")])
        return [f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()]


class _Handler(MotoRequestHandler):
    def log(self, *args: Any) -> None:
        """Print nothing."""

    def connection_dropped(self, error: BaseException, environ: Any = None) -> None:
        """Close the connection, so that the client reads a reset and not the end of an answer."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


@contextmanager
def serve() -> Iterator[tuple[Store, dict[str, Any]]]:
    """A running server and the options of its clients."""
    store = Store()
    server = make_server("127.0.0.1", 0, store, threaded=True, request_handler=_Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    options = {
        "endpoint_url": f"http://127.0.0.1:{server.server_port}",
        "key": "test",
        "secret": "test",
        "config_kwargs": {"retries": {"total_max_attempts": 2, "mode": "standard"}},
    }
    try:
        yield store, options
    finally:
        server.shutdown()
        thread.join()
