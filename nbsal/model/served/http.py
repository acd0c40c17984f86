"""One request to a server: bounded in time and size, never redirected, through the proxy of the environment.

The standard library's client, since it is always there, logs nothing, and follows no redirect with a key.
"""

import base64
import http.client
import json
import socket
import threading
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from nbsal.model.served.calls import Failure
from nbsal.model.served.endpoint import IN_ERRORS, IN_REPLIES, Endpoint

LARGEST = 2**26  # bytes of a reply
PIECE = 2**16
SHOWN = 200  # characters of what a server says that an error repeats
BUSY = (408, 425, 429, 500, 502, 503, 504, 529)  # worth another attempt
SERVED = (200, 201)


def post(endpoint: Endpoint, path: str, body: Any) -> Any:
    """What a server returns for a body, as parsed JSON; Failure says in a sentence why it does not."""
    reply = _exchange(endpoint, path, json.dumps(body).encode())
    if isinstance(reply, Failure):  # raised here, where no frame of the client with its headers is left
        raise reply
    status, headers, data = reply
    text = endpoint.key.redact(data.decode("utf-8", "replace"), IN_REPLIES if status in SERVED else IN_ERRORS)
    if status not in SERVED:
        raise _refusal(endpoint, status, headers, text)
    try:
        content = json.loads(text)
        if "\\u" in text:
            json.dumps(content, ensure_ascii=False).encode()  # fails on lone surrogates, which nothing can write
        return content
    except (ValueError, RecursionError):
        problem = f"returned no JSON but {_excerpt(endpoint, text)}"
    raise Failure(problem, status)


def _exchange(endpoint: Endpoint, path: str, body: bytes) -> tuple[int, Any, bytes] | Failure:
    """Status, headers and body of a reply, or what went wrong."""
    try:
        connection, target, extra = _connect(endpoint, path)
    except (ValueError, http.client.InvalidURL):  # the address of the server was checked before
        return Failure("cannot be reached: the proxy that the environment names is no address")
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    end, timer = time.monotonic() + endpoint.timeout, None
    late = Failure(f"did not answer within {endpoint.timeout:g} seconds", again=True)
    broken = Failure("broke off in the middle of a reply", again=True)
    try:
        connection.connect()
        timer = threading.Timer(max(0.0, end - time.monotonic()), _cut, [connection.sock])
        timer.daemon = True
        timer.start()
        connection.request("POST", target, body, headers | extra | endpoint.key.headers)
        response = connection.getresponse()
        data = bytearray()
        while piece := response.read1(PIECE):
            data += piece
            if len(data) > LARGEST:
                return Failure(f"sent more than {LARGEST >> 20} MB, which is not read")
        if response.length:
            return late if time.monotonic() >= end else broken
        return response.status, response.headers, bytes(data)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, TimeoutError) or time.monotonic() >= end:
            return late
        if isinstance(error, http.client.HTTPException | ConnectionResetError | BrokenPipeError):
            return broken
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        return Failure(f"cannot be reached: {endpoint.key.redact(reason)}", again=True)
    finally:
        if timer is not None:
            timer.cancel()
        connection.close()


def _cut(connection: socket.socket) -> None:
    """End a connection that takes too long, however slowly it goes on: its reader stops."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _connect(endpoint: Endpoint, path: str) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
    """A connection to the server or to a proxy, what is requested of it, and the headers that a proxy wants."""
    assert isinstance(endpoint.url, str), "functions are called"
    address = urlsplit(endpoint.url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    host = address.hostname or ""
    proxy = None if proxy_bypass(address.netloc) else getproxies().get(address.scheme)
    if proxy is None:
        return kind(host, address.port, timeout=endpoint.timeout), path, {}
    via = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    login = f"{unquote(via.username or '')}:{unquote(via.password or '')}"
    headers = {"Proxy-Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if via.username else {}
    connection = kind(via.hostname or "", via.port or 80, timeout=endpoint.timeout)
    if address.scheme == "https":
        connection.set_tunnel(host, address.port, headers)
        return connection, path, {}
    return connection, f"{address.scheme}://{address.netloc}{path}", headers


def _refusal(endpoint: Endpoint, status: int, headers: Any, text: str) -> Failure:
    """Why a reply with another status than success is no result."""
    if 300 <= status < 400:
        host = urlsplit(endpoint.key.redact(headers.get("Location") or "")).hostname or "another address"
        return Failure(f"redirects to {host}, which is not followed with a key; pass that address as url", status)
    named = {
        401: "refuses the key (401); set NBSAL_API_KEY, or pass another key",
        403: "refuses the key (403); set NBSAL_API_KEY, or pass another key",
        404: f"knows no such address or model (404): {_excerpt(endpoint, text)}; the url usually ends in /v1",
    }
    message = named.get(status, f"answered with status {status}: {_excerpt(endpoint, text)}")
    return Failure(message, status, status in BUSY, _wait(headers.get("Retry-After")))


def _wait(value: str | None) -> float | None:
    """The seconds of a Retry-After header, which may be a date."""
    if not value:
        return None
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None


def _excerpt(endpoint: Endpoint, text: str) -> str:
    """The beginning of what a server says, or the message in it, on one line, without a key that JSON escapes hid."""
    with suppress(ValueError, RecursionError):
        content = json.loads(text)
        for name in ("error", "message", "detail"):
            content = content.get(name, content) if isinstance(content, dict) else content
        text = endpoint.key.redact(content) if isinstance(content, str) else text
    line = " ".join(text.split())
    return repr(line if len(line) <= SHOWN else f"{line[:SHOWN]}...")
