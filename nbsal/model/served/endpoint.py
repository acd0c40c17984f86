"""Where a served model is, who may ask it, and how often; the key stands in no repr, pickle, error or file."""

import base64
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from nbsal.model.served.calls import Caller
from nbsal.model.served.classifier import Classifier
from nbsal.support.errors import InputError
from nbsal.support.validation import checked, positive_number

VARIABLES = ("NBSAL_API_KEY", "OPENAI_API_KEY")  # of the environment, the first one that is set
HIDDEN = "[hidden]"
# Characters of a key that is cut out of errors, and of replies, where a short one may be a word.
IN_ERRORS, IN_REPLIES = 4, 8


class Credentials:
    """What a server asks for before it answers; neither its repr nor its pickle says more than that it is there."""

    __slots__ = ("_header", "_secrets")

    def __init__(self, header: str = "", *secrets: str) -> None:
        self._header = header
        self._secrets = secrets

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request."""
        return {"Authorization": self._header} if self._header else {}

    def redact(self, text: str, shortest: int = IN_ERRORS) -> str:
        """A text of the server without the credentials, if they have so many characters."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN) if len(secret) >= shortest else text
        return text

    def __repr__(self) -> str:
        return HIDDEN if self._header else "None"

    def __reduce__(self) -> tuple[Any, ...]:
        return Credentials, ()

    @classmethod
    def of(cls, key: Any, address: SplitResult) -> "Credentials":
        """The key that was passed, the login in the address, or the key in the environment."""
        login = address.password is not None or bool(address.username)
        if key is not None and login:
            raise InputError("Pass key=..., or a login in the address, not both.", argument="key", value=HIDDEN)
        if key is None and not login:
            key = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), None)
        if login:
            name, password = unquote(address.username or ""), unquote(address.password or "")
            coded = base64.b64encode(f"{name}:{password}".encode()).decode()
            return cls(f"Basic {coded}", name, password, address.username or "", address.password or "", coded)
        if key is None:
            return cls()
        key = key.strip() if isinstance(key, str) else ""
        if not key.isascii() or not key.isprintable() or not key or " " in key:
            raise InputError("key must be a string of ASCII characters.", argument="key", value=HIDDEN)
        return cls(f"Bearer {key}", key)


@checked
@dataclass(frozen=True)
class Endpoint:
    """A language model behind an OpenAI-compatible server, for `nbsal.load`; its replies are explained by hiding.

    `url` is the address that `/completions` is added to, such as "http://127.0.0.1:8000/v1", and `model` the name that
    the server knows. `key` is by default that of the environment, NBSAL_API_KEY or OPENAI_API_KEY. No more than
    `budget` requests are sent, failed ones included. What the server said is kept in the file `cache` (sqlite), and no
    request is sent twice; without it, in memory. `tokenizer` is the model's (a folder, a hub id or an object): with it,
    chat templates are rendered here and units may be tokens; without it, the units are words and larger parts.

    `top` is how many of the likeliest tokens are requested at each place, `timeout` the longest that a request may
    take, in seconds, and `parallel` how many are sent at a time.

    In place of an address, a function takes pairs of a prompt and a reply, and returns the log-probabilities of the
    tokens of each reply: those of `tokenizer`, or words, or pairs of a text and its log-probability.

    >>> import nbsal
    >>> def replies(pairs):
    ...     return [[-0.5 if "Oslo" in prompt else -2.5] * len(reply.split()) for prompt, reply in pairs]
    >>> subject = nbsal.load(nbsal.Endpoint(replies, model="a guess", budget=20))
    >>> prompt = "Mara lives in Oslo. Boris lives in Rouen. Where does Mara live?"
    >>> answer = nbsal.answer(subject, prompt, "In Oslo", method="occlusion", progress=False)
    >>> answer.sources(k=1, rows="reply")["text"].item()
    'Mara lives in Oslo. '
    """

    url: str | Callable[..., Any]
    model: str = ""
    key: Any = field(default=None, repr=False)
    budget: int | None = 1000
    cache: str | Path | None = None
    tokenizer: Any = field(default=None, repr=False)
    top: int = 5
    timeout: float = 60.0
    parallel: int = 4

    def __post_init__(self) -> None:
        for name in ("top", "parallel") + (() if self.budget is None else ("budget",)):
            object.__setattr__(self, name, positive_number(getattr(self, name), name))
        if not 0 < self.timeout < 1e6:
            message = f"timeout must be more than 0 seconds, not {self.timeout!r}."
            raise InputError(message, argument="timeout", value=self.timeout)
        if not isinstance(self.url, str):
            name = self.model or getattr(self.url, "__qualname__", type(self.url).__name__)
            object.__setattr__(self, "model", name)
            object.__setattr__(self, "key", Credentials())
            return
        if not self.model.strip():
            message = "model is empty. Pass the name under which the server knows the model."
            raise InputError(message, argument="model", value=self.model)
        address, problem = _parse(self.url), ""
        if address is None or address.scheme not in ("http", "https") or not address.hostname:
            problem = "must be an address such as http://127.0.0.1:8000/v1"
        elif address.query or address.fragment:
            problem = "must be an address without ? and #"
        if problem or address is None:
            raise InputError(f"url {problem}.", argument="url", value=HIDDEN)
        credentials = self.key if isinstance(self.key, Credentials) else Credentials.of(self.key, address)
        object.__setattr__(self, "key", credentials)
        host = address.netloc.rpartition("@")[2]
        object.__setattr__(self, "url", f"{address.scheme}://{host}{address.path.rstrip('/')}")

    @property
    def address(self) -> str:
        """The address without credentials; of a function, its name."""
        return self.url if isinstance(self.url, str) else f"the function {self.model}"

    def classifier(self) -> Classifier:
        """The function of this endpoint as a classifier for `nbsal.load`, with the budget and the cache.

        >>> import nbsal
        >>> endpoint = nbsal.Endpoint(lambda texts: [[0.2, 0.8]] * len(texts), model="reviews", budget=20)
        >>> nbsal.Explainer(nbsal.load(endpoint.classifier()), "occlusion")("A warm film.").prediction
        'LABEL_1'
        """
        if isinstance(self.url, str):
            message = "A classifier is a function from texts to probabilities. Pass one that asks this server."
            raise InputError(message, argument="url", value=self.url)
        return Classifier(Caller(self), self.url, self.model)

    def __reduce__(self) -> tuple[Any, ...]:
        # Where it is restored, the key comes from the environment.
        settings = {name: value for name, value in vars(self).items() if name != "key"}
        return partial(Endpoint, **settings), ()


def _parse(url: str) -> SplitResult | None:
    """The parts of an address; None if it has none, such as a port that is no number, or a character to be quoted."""
    url = url.strip()
    try:
        address = urlsplit(url)
        plain = url.isprintable() and " " not in url and address.path.isascii()
        return address if plain and (address.port is None or address.port) else None
    except ValueError:
        return None
