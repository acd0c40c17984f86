"""Cache of the last value."""

from collections.abc import Callable
from typing import Any


class LastValue:
    """Cache of one value, which is computed again when its key changes."""

    def __init__(self) -> None:
        self._entry: tuple[Any, Any] | None = None

    @property
    def value(self) -> Any:
        return self._entry and self._entry[1]

    def value_for(self, key: Any) -> Any:
        """The cached value, or None if it was computed for another key."""
        return self.value if self.is_for(key) else None

    def is_for(self, key: Any) -> bool:
        return self._entry is not None and bool(self._entry[0] == key)

    def get(self, key: Any, compute: Callable[[], Any]) -> Any:
        """The cached value, computed first if there is none for that key."""
        if not self.is_for(key):
            self._entry = key, compute()
        return self.value

    def replace(self, value: Any) -> None:
        """Put another value in place of the cached one, for the same key."""
        if self._entry is not None:
            self._entry = self._entry[0], value
