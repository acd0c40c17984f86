"""Statistics of attention heads, and masks of the heads that follow syntax or position."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nbsal.model.head_mask import HeadMask as HeadMask

if TYPE_CHECKING:
    from nbsal.heads.parses import Parse as Parse
    from nbsal.heads.statistics import HeadStudy as HeadStudy
    from nbsal.heads.statistics import discover as discover
    from nbsal.heads.statistics import study as study

# Subjects carry a HeadMask, but a study needs traces, whose modules import subjects: so these are imported on use.
_NAMES = {"Parse": "parses", "HeadStudy": "statistics", "discover": "statistics", "study": "statistics"}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"nbsal.heads.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'nbsal.heads' has no attribute {name!r}")
