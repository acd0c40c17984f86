"""Statistics of attention heads, and masks of the heads that follow syntax or position."""

from nbsal.heads.parses import Parse as Parse
from nbsal.heads.statistics import HeadStudy as HeadStudy
from nbsal.heads.statistics import discover as discover
from nbsal.heads.statistics import study as study
from nbsal.model.head_mask import HeadMask as HeadMask
