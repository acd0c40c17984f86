"""A classifier that is a function of texts, with a budget and a cache."""

from collections.abc import Callable, Sequence
from typing import Any

from nbsal.model.served.cache import checksum
from nbsal.model.served.calls import Caller
from nbsal.support.progress import Meter
from nbsal.support.validation import as_list


class Classifier:
    """Calls a function from texts to rows of probabilities, with no text twice and within a budget."""

    def __init__(self, caller: Caller, function: Callable[..., Any], name: str) -> None:
        self._caller, self._function, self.__qualname__ = caller, function, name

    def __call__(self, texts: Sequence[Any]) -> list[Any]:
        """The row of each text."""
        keys = [checksum(["classifier", self.__qualname__, text]) for text in texts]
        return self._caller.results_of(self._rows, keys, texts, Meter(None))

    def _rows(self, texts: list[Any]) -> list[Any]:
        return as_list(self._function(texts), "model", "must be a function that returns a row for each text")
