"""Where a served model is, who may ask it, and how often."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from nbsal.model.served.cache import CallCache, checksum
from nbsal.model.served.calls import Caller
from nbsal.model.served.classifier import Classifier
from nbsal.model.served.code_digest import digest_of
from nbsal.model.served.credentials import Credentials, read_address
from nbsal.support.errors import InputError
from nbsal.support.validation import checked, positive_number

MOST_PARALLEL = 256  # requests at a time, each in a thread


@dataclass(frozen=True, init=False, repr=False)
class Endpoint:
    """A language model behind an OpenAI-compatible server, for `nbsal.load`; its replies are explained by hiding.

    Args:
        url: The address that `/completions` is added to, such as "http://127.0.0.1:8000/v1". Or a function that takes
            pairs of a prompt and a reply, and returns the log-probabilities of the tokens of each reply: those of
            `tokenizer`, or words, or pairs of a text and its log-probability. An edited function is called anew.
        model: The name by which the server knows the model.
        key: By default NBSAL_API_KEY of the environment, or OPENAI_API_KEY if the server is OpenAI's or this machine.
        budget: How many requests are sent at most, failed ones included: by all copies together, and with a `cache`
            by all processes that use this server and model with it, now or later.
        cache: An sqlite file that keeps what the server said, so that no request is sent twice. By default that is kept
            in memory.
        tokenizer: That of the model (a folder, a hub id or an object). With it, chat templates are rendered here and
            units may be tokens. Without it, units are words and larger parts.
        top: How many of the likeliest tokens are requested at each place.
        timeout: The longest that a request may take, in seconds.
        parallel: How many requests are sent at a time.
        insecure: Whether a key may be sent to another machine over plain http.

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
    model: str
    key: Credentials
    budget: int | None
    cache: CallCache  # the same in all copies
    tokenizer: Any
    top: int
    timeout: float
    parallel: int
    insecure: bool

    def __init__(
        self,
        url: str | Callable[..., Any],
        model: str = "",
        key: Any = None,
        budget: int | None = 1000,
        cache: str | Path | CallCache | None = None,
        tokenizer: Any = None,
        top: int = 5,
        timeout: float = 60.0,
        parallel: int = 4,
        insecure: bool = False,
    ) -> None:
        # First of all: then no frame holds a key as text when something else is refused.
        error: InputError | None = None
        if isinstance(url, str):
            url, key, error = read_address(url, key, insecure is True)
        else:
            key = Credentials()
        if error is not None:
            raise error
        shared, path = (cache, None) if isinstance(cache, CallCache) else (None, cache)
        settings = _settings(url, model, budget, path, top, timeout, parallel, insecure)
        settings |= {"key": key, "tokenizer": tokenizer, "cache": shared or CallCache(settings["cache"])}
        if not isinstance(url, str):
            settings |= _of_function(url, model, settings["cache"].path is not None)
        for name, value in settings.items():
            object.__setattr__(self, name, value)

    @property
    def address(self) -> str:
        """The address without credentials; of a function, its name."""
        return self.url if isinstance(self.url, str) else f"the function {self.model}"

    @property
    def identity(self) -> list[Any]:
        """What results belong to: server and model, or the function as it is, with the values it began with."""
        if isinstance(self.url, str):
            return [self.url, self.model]
        return [self.model, vars(self)["values"], digest_of(self.url, mutable=False)[0]]

    @property
    def account(self) -> str:
        """What calls are counted under in the cache."""
        return checksum(self.identity)

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

    def __repr__(self) -> str:
        settings = [f"{name}={value!r}" for name, value in self._settings().items() if name != "tokenizer"]
        return f"Endpoint({', '.join(settings)})"

    def __copy__(self) -> "Endpoint":
        return self  # nothing in it changes but its cache, which copies share

    def __deepcopy__(self, memo: Any) -> "Endpoint":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Where it is restored, the key comes from the environment.
        return partial(Endpoint, **self._settings()), ()

    def _settings(self) -> dict[str, Any]:
        """All but the key, of what is there yet."""
        return {
            field.name: vars(self)[field.name] for field in fields(self) if field.name in vars(self).keys() - {"key"}
        }


@checked
def _settings(
    url: str | Callable[..., Any],
    model: str,
    budget: int | None,
    cache: str | Path | None,
    top: int,
    timeout: float,
    parallel: int,
    insecure: bool,
) -> dict[str, Any]:
    if budget is not None:
        budget = positive_number(budget, "budget")
    if not 0 < timeout < 1e6:
        message = f"timeout must be more than 0 seconds, not {timeout!r}."
        raise InputError(message, argument="timeout", value=timeout)
    if positive_number(parallel, "parallel") > MOST_PARALLEL:
        message = f"parallel={parallel} is more than {MOST_PARALLEL} requests at a time. Pass a smaller number."
        raise InputError(message, argument="parallel", value=parallel)
    if isinstance(url, str) and not model.strip():
        message = "model is empty. Pass the name under which the server knows the model."
        raise InputError(message, argument="model", value=model)
    top = positive_number(top, "top")
    return {name: value for name, value in locals().items() if name != "message"}


def _of_function(function: Callable[..., Any], model: str, stored: bool) -> dict[str, Any]:
    """The name of a function's endpoint, and the digest of what it holds; a file needs one that says all."""
    name = getattr(function, "__qualname__", type(function).__name__)
    values, unknown = digest_of(function)
    if stored and unknown and model in ("", name):
        message = (
            f"cache=... keeps results of a function by its code and values, and {unknown} has no digest. Pass "
            "model='a name and version', another one whenever that changes; or leave out cache."
        )
        raise InputError(message, argument="model", value=model)
    return {"model": model or name, "values": values}
