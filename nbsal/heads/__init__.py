"""Heads: what each attention head looks at, and masks of those that follow syntax or position."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nbsal.model.head_mask import HeadMask as HeadMask

if TYPE_CHECKING:
    from nbsal.heads.parses import Parse as Parse
    from nbsal.heads.statistics import HeadStudy as HeadStudy
    from nbsal.heads.statistics import discover as discover
    from nbsal.heads.statistics import study as study

# A mask is a plain thing that subjects carry; a study reads traces, floors above. So the latter is looked up on use.
_NAMES = {"Parse": "parses", "HeadStudy": "statistics", "discover": "statistics", "study": "statistics"}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"nbsal.heads.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'nbsal.heads' has no attribute {name!r}")
