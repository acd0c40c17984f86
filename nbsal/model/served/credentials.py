"""Keys and logins of servers and proxies, which stand in no repr, pickle, file or error, nor in its frames."""

import base64
import ipaddress
import os
import re
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from nbsal.support.errors import InputError

ANYWHERE, OPENAI_ONLY = "NBSAL_API_KEY", "OPENAI_API_KEY"  # variables of the environment, in this order
OPENAI = "api.openai.com"
HIDDEN = "[hidden]"
LOGIN, ARGUMENT = "a login", "key=..."  # where else credentials come from
_LOGIN = re.compile(r"(?<=//)[^/?#]*@")
# Characters of a key that is cut out of errors, and of replies, where a short one may be a word.
IN_ERRORS, IN_REPLIES = 4, 8


class Credentials:
    """A key, or a login as an address has it.

    The text is stored before it is checked, and only properties that raise nothing read it: no error has it in a frame.
    """

    __slots__ = ("_text", "source")

    def __init__(self, text: Any = None, source: str = "") -> None:
        self._text, self.source = text, source

    @property
    def headers(self) -> dict[str, str]:
        """The header of a request."""
        return {"Authorization": self.header} if self else {}

    @property
    def header(self) -> str:
        """The value of that header, or of the one for a proxy."""
        if self.source == LOGIN:
            return f"Basic {_coded(':'.join(map(unquote, self._parts)))}"
        return f"Bearer {self._text.strip()}"

    @property
    def fits(self) -> bool:
        """Whether a header can hold it."""
        if self.source == LOGIN:
            return True
        text = self._text.strip() if isinstance(self._text, str) else ""
        return text.isascii() and text.isprintable() and bool(text) and " " not in text

    @property
    def _parts(self) -> list[str]:
        """The name and the password of a login."""
        name, _, password = str(self._text).partition(":")
        return [name, password]

    def redact(self, text: str, shortest: int = IN_ERRORS) -> str:
        """A text without the credentials, in any form that they were sent in, if they have so many characters."""
        if not self:
            return text
        parts = self._parts if self.source == LOGIN else [str(self._text).strip()]
        plain = {*parts, *map(unquote, parts)}
        forms = plain | {quote(each, "") for each in plain} | {_coded(each).rstrip("=") for each in plain}
        forms |= {self.header.partition(" ")[2].rstrip("="), _coded(self.header).rstrip("=")}
        for secret in sorted(forms, key=len, reverse=True):
            text = text.replace(secret, HIDDEN) if len(secret) >= shortest else text
        return text

    def __bool__(self) -> bool:
        return self._text is not None

    def __repr__(self) -> str:
        return HIDDEN if self else "None"

    def __reduce__(self) -> tuple[Any, ...]:
        return Credentials, ()


def _coded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def take_login(address: str) -> tuple[str, Credentials]:
    """An address without the login in it, and that."""
    login = _LOGIN.search(address)
    plain = _LOGIN.sub("", address, count=1)
    return plain, Credentials(login[0][:-1], LOGIN) if login and login[0] != "@" else Credentials()


def read_address(url: str, key: Any, insecure: bool) -> tuple[str, Credentials, InputError | None]:
    """The address of a server and the credentials for it, or the error to raise, from where nothing of them is left."""
    address, login = take_login(url.strip())
    parts, problem = _split(address), ""
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        problem = "must be an address such as http://127.0.0.1:8000/v1"
    elif parts.query or parts.fragment:
        problem = "must be an address without ? and #"
    if problem or parts is None or not parts.hostname:
        return HIDDEN, Credentials(), InputError(f"url {problem}.", argument="url", value=HIDDEN)
    host = parts.hostname
    address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    if not isinstance(key, Credentials):
        key = Credentials(key, "" if key is None else ARGUMENT)
    if key and login:
        message = "Pass key=..., or a login in the address, not both."
        return address, login, InputError(message, argument="key", value=HIDDEN)
    if key.source in (ANYWHERE, OPENAI_ONLY) or not (key or login):  # that of a copy may have gone to another server
        key = _from_environment(host)
    credentials = login or key
    if credentials and not credentials.fits:
        message = f"{credentials.source} must be a string of ASCII characters."
        return address, credentials, InputError(message, argument="key", value=HIDDEN)
    if credentials and parts.scheme == "http" and not (insecure or is_loopback(host)):
        message = (
            f"{credentials.source} would be sent to {host} without encryption. Use https, or pass insecure=True if "
            "nobody else listens on the way."
        )
        return address, credentials, InputError(message, argument="insecure", value=False)
    return address, credentials, None


def _from_environment(host: str) -> Credentials:
    """The key in the environment that is meant for a host."""
    names = (ANYWHERE, OPENAI_ONLY) if host == OPENAI or is_loopback(host) else (ANYWHERE,)
    name = next((name for name in names if os.environ.get(name)), None)
    return Credentials(os.environ[name], name) if name else Credentials()


def _split(address: str) -> SplitResult | None:
    """The parts of an address; None if it has none, such as a bad host or port, or a character to be quoted."""
    try:
        parts = urlsplit(address)
        (parts.hostname or "").encode("idna")
        plain = address.isprintable() and " " not in address and parts.path.isascii()
        return parts if plain and (parts.port is None or parts.port) else None
    except ValueError:
        return None
