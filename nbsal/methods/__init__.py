"""Explanation methods, each a small frozen dataclass that turns a trace into scores."""

from typing import TYPE_CHECKING

from nbsal.support.lazy import exports as _exports

if TYPE_CHECKING:
    from nbsal.methods import catalogue as catalogue
    from nbsal.methods import decoding as decoding
    from nbsal.methods import gradient as gradient

__getattr__, __dir__ = _exports(globals(), {name: name for name in ("catalogue", "decoding", "gradient")})
