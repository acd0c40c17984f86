"""A classifier that is a function of texts, with a budget and a cache."""

from collections.abc import Callable, Sequence
from typing import Any

from nbsal.model.served.cache import checksum
from nbsal.model.served.calls import Caller
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter
from nbsal.support.validation import as_list, plural


class Classifier:
    """Calls a function from texts to rows of probabilities, with no text twice and within a budget."""

    def __init__(self, caller: Caller, function: Callable[..., Any], name: str) -> None:
        self._caller, self._function, self.__qualname__ = caller, function, name

    def __call__(self, texts: Sequence[Any]) -> list[Any]:
        """The row of each text."""
        identity = self._caller.endpoint.identity
        keys = [checksum(["classifier", identity, text]) for text in texts]
        return self._caller.results_of(self._rows, keys, texts, Meter(None))

    def _rows(self, texts: list[Any]) -> list[Any]:
        rows = as_list(self._function(texts), "model", "must be a function that returns a row for each text")
        if len(rows) != len(texts):
            message = f"The function returned {plural(len(rows), 'row')} for {plural(len(texts), 'text')}."
            raise InputError(f"{message} It must return one for each.", argument="model", value=rows)
        return rows
