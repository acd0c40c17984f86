"""Statistics of attention heads, and masks of the heads that follow syntax or position."""

from typing import TYPE_CHECKING

from nbsal.heads.counts import HeadStudy as HeadStudy
from nbsal.heads.parses import Parse as Parse
from nbsal.model.head_mask import HeadMask as HeadMask
from nbsal.support.lazy import exports as _exports

if TYPE_CHECKING:
    from nbsal.heads.statistics import discover as discover
    from nbsal.heads.statistics import study as study

__getattr__, __dir__ = _exports(globals(), {"discover": "statistics", "study": "statistics"})
