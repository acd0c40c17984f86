"""Explanation methods, each a small frozen dataclass that turns a trace into scores."""

from typing import TYPE_CHECKING, Any

from nbsal.support.lazy import resolve as _resolve

if TYPE_CHECKING:
    from nbsal.methods import catalogue as catalogue
    from nbsal.methods import decoding as decoding
    from nbsal.methods import gradient as gradient

_NAMES = {name: name for name in ("catalogue", "decoding", "gradient")}


def __getattr__(name: str) -> Any:
    return _resolve(__name__, _NAMES, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
