"""Statistics of attention heads, and masks of the heads that follow syntax or position."""

from typing import TYPE_CHECKING, Any

from nbsal.heads.counts import HeadStudy as HeadStudy
from nbsal.heads.parses import Parse as Parse
from nbsal.model.head_mask import HeadMask as HeadMask
from nbsal.support.lazy import resolve as _resolve

if TYPE_CHECKING:
    from nbsal.heads.statistics import discover as discover
    from nbsal.heads.statistics import study as study

_NAMES = {"discover": "statistics", "study": "statistics"}


def __getattr__(name: str) -> Any:
    return _resolve(__name__, _NAMES, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
