"""One request to a server: bounded in time and size, never redirected, through the proxy of the environment.

The standard library's client, since it is always there, logs nothing, and follows no redirect with a key.
"""

import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from nbsal.model.served.calls import Failure
from nbsal.model.served.credentials import IN_ERRORS, IN_REPLIES, Credentials, is_loopback, take_login
from nbsal.model.served.endpoint import Endpoint

PIECE = 2**16
LEAST = 0.001  # seconds: a time of 0 would mean that nothing waits
SHOWN = 200  # characters of what a server says that an error repeats
BUSY = (408, 425, 429, 500, 502, 503, 504, 529)  # worth another attempt
SERVED = (200, 201)
TUNNEL = re.compile(r"Tunnel connection failed: (\d+)")  # what http.client says of a proxy
# What servers say with status 400: LiteLLM, OpenRouter and llama-cpp-python; LiteLLM without a database, and Google.
NO_MODEL = re.compile("invalid model name|not a valid model|model_not_found")
NO_KEY = re.compile("no connected db|api key not valid")
T = TypeVar("T")
# A reply of empty lists takes thirty times its bytes: one is parsed and read at a time.
_PARSING = threading.Lock()


class _Plain(http.client.HTTPConnection):
    """A connection; what follows it, which is the handshake of TLS, has the rest of the time."""

    end = 0.0
    line: socket.socket | None = None  # a reply takes the socket away from its connection

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(max(LEAST, self.end - time.monotonic()))


class _Secure(http.client.HTTPSConnection, _Plain):
    """The same with TLS."""


@dataclass(frozen=True)
class _Proxy:
    """The proxy of the environment for a server, and its login."""

    host: str
    port: int
    login: Credentials

    @property
    def headers(self) -> dict[str, str]:
        return {"Proxy-Authorization": self.login.header} if self.login else {}


def ask(endpoint: Endpoint, path: str, body: Any, most: int, read: Callable[[Any], T]) -> T:
    """What `read` takes from the JSON of a reply, of at most so many bytes; Failure says why there is none.

    Without a body, the address is only read.
    """
    try:
        proxy = _proxy(endpoint)
    except ValueError:  # the address of the server was checked before
        proxy = None
        reply: tuple[int, Any, bytes] | Failure = Failure(
            "cannot be reached: the proxy that the environment names is no address"
        )
    else:
        reply = _exchange(endpoint, proxy, path, b"" if body is None else json.dumps(body).encode(), most)
    if isinstance(reply, Failure):  # raised here, where no frame of the client with its headers is left
        raise reply
    status, headers, data = reply

    def redact(text: str, shortest: int = IN_ERRORS) -> str:
        text = endpoint.key.redact(text, shortest)
        return proxy.login.redact(text, shortest) if proxy else text

    text = redact(data.decode("utf-8", "replace"), IN_REPLIES if status in SERVED else IN_ERRORS)
    if status not in SERVED:
        raise _refusal(status, headers, text, redact)
    del reply, data
    with _PARSING:
        try:
            content = json.loads(text)
            if "\\u" in text:
                json.dumps(content, ensure_ascii=False).encode()  # fails on lone surrogates, which nothing can write
        except (ValueError, RecursionError):
            problem = f"returned no JSON but {_excerpt(text, redact)}"
        else:
            return read(content)
    raise Failure(problem, status)


def _exchange(
    endpoint: Endpoint, proxy: _Proxy | None, path: str, body: bytes, most: int
) -> tuple[int, Any, bytes] | Failure:
    """Status, headers and body of a reply, or what went wrong."""
    connection, target, extra = _connection(endpoint, proxy, path)
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    end = connection.end = time.monotonic() + endpoint.timeout
    late = Failure(f"did not answer within {endpoint.timeout:g} seconds", again=True)
    broken = Failure("broke off in the middle of a reply", again=True)
    timer = threading.Timer(endpoint.timeout, _cut, [connection])
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        connection.line = connection.sock
        connection.request("POST" if body else "GET", target, body, headers | extra | endpoint.key.headers)
        response = connection.getresponse()
        data = bytearray()
        while piece := response.read1(PIECE):
            data += piece
            if len(data) > most:
                return Failure(f"sent more than {most >> 20} MB, more than what it was asked for can have")
        # Headers that break off look like those of an empty reply of unknown length.
        cut = response.status in SERVED and not (data or response.headers.get("Content-Length"))
        if response.length or cut:
            return late if time.monotonic() >= end else broken
        return response.status, response.headers, bytes(data)
    except Exception as error:  # no other one may pass on the frames of the client
        if isinstance(error, TimeoutError) or time.monotonic() >= end:
            return late
        return _failure(error, broken)
    finally:
        timer.cancel()
        connection.close()


def _failure(error: Exception, broken: Failure) -> Failure:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Failure(f"cannot be trusted: {error.verify_message}")
    if isinstance(error, http.client.HTTPException | ConnectionResetError | BrokenPipeError | ssl.SSLEOFError):
        return broken
    if tunnel := TUNNEL.match(str(error)):
        status = int(tunnel[1])
        return Failure(f"cannot be reached: the proxy refuses the connection ({status})", status, status in BUSY)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    absent = isinstance(error, ConnectionRefusedError | socket.gaierror)
    hint = "; start it, or pass another url" if absent else ""
    return Failure(f"cannot be reached: {reason}{hint}", again=isinstance(error, OSError), absent=absent)


def _cut(connection: _Plain) -> None:
    """End a connection that takes too long, however slowly it goes on: its reader stops."""
    with suppress(OSError, AttributeError):  # it may not be there yet
        (connection.line or connection.sock).shutdown(socket.SHUT_RDWR)


def _proxy(endpoint: Endpoint) -> _Proxy | None:
    """The proxy of the environment; none for this machine, to which keys go without encryption."""
    address = urlsplit(str(endpoint.url))
    named = (
        None
        if is_loopback(address.hostname or "") or proxy_bypass(address.netloc)
        else getproxies().get(address.scheme)
    )
    if named is None:
        return None
    plain, login = take_login(named if "://" in named else f"http://{named}")
    parts = urlsplit(plain)
    if not parts.hostname or not plain.isprintable() or " " in plain:
        raise ValueError("no address")
    return _Proxy(parts.hostname, parts.port or 80, login)


def _connection(endpoint: Endpoint, proxy: _Proxy | None, path: str) -> tuple[_Plain, str, dict[str, str]]:
    """A connection to the server or to a proxy, what is requested of it, and the headers that a proxy wants."""
    address = urlsplit(str(endpoint.url))
    kind, host = _Secure if address.scheme == "https" else _Plain, address.hostname or ""
    if proxy is None:
        return kind(host, address.port, timeout=endpoint.timeout), path, {}
    connection = kind(proxy.host, proxy.port, timeout=endpoint.timeout)
    if address.scheme == "https":
        connection.set_tunnel(host, address.port, proxy.headers)
        return connection, path, {}
    return connection, f"{address.scheme}://{address.netloc}{path}", proxy.headers


def _refusal(status: int, headers: Any, text: str, redact: Callable[[str], str]) -> Failure:
    """Why a reply with another status than success is no result."""
    if 300 <= status < 400:
        host = "another address"
        with suppress(ValueError):
            host = redact(urlsplit(headers.get("Location") or "").netloc.rpartition("@")[2] or host)
        return Failure(f"redirects to {host:.200}, which is not followed with a key; pass that address as url", status)
    start = text[:PIECE].lower()
    no_model = "model" in start if status == 404 else status == 400 and bool(NO_MODEL.search(start))
    no_key = status in (401, 403) or (status == 400 and bool(NO_KEY.search(start)))
    said = _excerpt(text, redact)
    if no_model:
        message = f"knows no such model ({status}): {said}"
    elif no_key:
        message = f"refuses the key ({status}); set NBSAL_API_KEY, or pass another key"
    elif status == 404:
        message = f"knows no such address (404): {said}; the url usually ends in /v1"
    elif status == 407:
        message = f"cannot be reached: the proxy refuses its login (407): {said}"
    else:
        message = f"answered with status {status}: {said}"
    return Failure(message, status, status in BUSY, _wait(headers.get("Retry-After")), no_model or no_key)


def _wait(value: str | None) -> float | None:
    """The seconds of a Retry-After header, which may be a date."""
    if not value:
        return None
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None


def _excerpt(text: str, redact: Callable[[str], str]) -> str:
    """The beginning of what a server says, or the message in it, on one line, without a key that JSON escapes hid."""
    with suppress(ValueError, RecursionError):
        content = json.loads(text[:PIECE])
        for name in ("error", "message", "detail"):
            content = content.get(name, content) if isinstance(content, dict) else content
        text = redact(content) if isinstance(content, str) else text
    line = " ".join(text.split())
    return repr(line if len(line) <= SHOWN else f"{line[:SHOWN]}...")
